"""One stream after the other, as a locust user would write it: TTFT is the first line with content."""

import time

from locust import HttpUser, constant, task


class Streams(HttpUser):
    wait_time = constant(0)

    @task
    def stream(self) -> None:
        begin, first = time.perf_counter(), None
        with self.client.post("/v1/chat/completions", json={"stream": True}, stream=True, catch_response=True) as response:
            for line in response.iter_lines():
                if first is None and b'"content"' in line:
                    first = time.perf_counter()
            response.success()
        if first is not None:
            self.environment.events.request.fire(
                request_type="SSE", name="ttft", response_time=(first - begin) * 1e3, response_length=0, exception=None
            )
