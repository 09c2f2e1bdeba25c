/* c_client.c - the physical limit: a C epoll client that opens N streams, stamps every read and throws the bytes away.
 *
 * build:  gcc -O2 -Wall -o c_client c_client.c
 * run:    ./c_client PORT STREAMS SECONDS 'PATH?QUERY' CORE
 *
 * One POST per connection; an event is counted for each "\n\n" in a read. Counts the second half of the time only, after
 * every stream has begun, and prints one line of JSON: events, cpu_ns, seconds.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static uint64_t clk(clockid_t id) {
    struct timespec t; clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + t.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc < 6) { fprintf(stderr, "usage: c_client PORT STREAMS SECONDS PATH CORE\n"); return 2; }
    int port = atoi(argv[1]), n = atoi(argv[2]), core = atoi(argv[5]);
    double seconds = atof(argv[3]);
    if (core >= 0) { cpu_set_t s; CPU_ZERO(&s); CPU_SET(core, &s); sched_setaffinity(0, sizeof s, &s); }
    struct rlimit rl; getrlimit(RLIMIT_NOFILE, &rl); rl.rlim_cur = rl.rlim_max; setrlimit(RLIMIT_NOFILE, &rl);
    int ep = epoll_create1(0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char req[1024];
    int len = snprintf(req, sizeof req, "POST %s HTTP/1.1\r\nHost: b\r\nContent-Length: 2\r\n\r\n{}", argv[4]);
    for (int i = 0; i < n; i++) {
        int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
        if (s < 0 || connect(s, (void *)&a, sizeof a)) { perror("connect"); return 1; }
        setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (send(s, req, len, 0) != len) { perror("send"); return 1; }
        fcntl(s, F_SETFL, O_NONBLOCK);
        struct epoll_event e = {.events = EPOLLIN, .data.fd = s};
        epoll_ctl(ep, EPOLL_CTL_ADD, s, &e);
    }
    static struct epoll_event ev[1024];
    static char buf[262144];
    volatile uint64_t stamp = 0;
    uint64_t begin = clk(CLOCK_MONOTONIC), half = begin + (uint64_t)(seconds * 5e8), end = begin + (uint64_t)(seconds * 1e9);
    uint64_t events = 0, cpu0 = 0, from = 0, now = begin;
    while (now < end) {
        int k = epoll_wait(ep, ev, 1024, 20);
        for (int i = 0; i < k; i++) {
            ssize_t r = recv(ev[i].data.fd, buf, sizeof buf, 0);
            stamp = clk(CLOCK_MONOTONIC);
            if (r <= 0) { if (r == 0) epoll_ctl(ep, EPOLL_CTL_DEL, ev[i].data.fd, NULL); continue; }
            for (char *p = buf; (p = memmem(p, buf + r - p, "\n\n", 2)); p += 2) events++;
        }
        now = clk(CLOCK_MONOTONIC);
        if (!from && now >= half) { from = now; events = 0; cpu0 = clk(CLOCK_PROCESS_CPUTIME_ID); }
    }
    (void)stamp;
    printf("{\"events\": %lu, \"cpu_ns\": %lu, \"seconds\": %.3f}\n", (unsigned long)events,
           (unsigned long)(clk(CLOCK_PROCESS_CPUTIME_ID) - cpu0), (now - from) / 1e9);
    return 0;
}
