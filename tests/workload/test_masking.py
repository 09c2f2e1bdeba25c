import pytest

from loadgen.workload.masking import is_secret_name, mask_named, mask_url, mask_values


@pytest.mark.parametrize(
    "name",
    [
        "Authorization", "Proxy-Authorization", "api-key", "x-api-key", "X-Goog-Api-Key", "Cookie", "X-Auth-Token",
        "client_secret", "Ocp-Apim-Subscription-Key", "key", "sig", "X-Amz-Signature", "password", "code", "Set-Cookie",
    ],
)  # fmt: skip
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["Host", "Accept", "model", "max_tokens", "api-version", "keyboard", "temperature"])
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("http://h:1/v1?q=1", "http://h:1/v1?q=1"),
        ("http://u:p@h:1/v1", "http://***@h:1/v1"),
        ("http://u@h/", "http://***@h/"),
        ("https://h/v1?api-version=2&api_key=abc&x=1", "https://h/v1?api-version=2&api_key=***&x=1"),
        ("https://h/key=v?key=v", "https://h/key=v?key=***"),
        ("https://h/?key=v&key=w", "https://h/?key=***&key=***"),
        ("https://h/?key=&token", "https://h/?key=&token"),
        ("https://h/?a%2Fkey=v", "https://h/?a%2Fkey=***"),
    ],
)
def test_mask_url(url: str, masked: str) -> None:
    assert mask_url(url) == masked


def test_mask_named_reaches_down_but_leaves_numbers() -> None:
    assert mask_named({
        "user": {"session_token": "s", "id": "i"},
        "tools": [{"auth": {"kind": "k", "list": ["a", 5]}}],
        "key": 5,
        "stop": ["a"],
    }) == {
        "user": {"session_token": "***", "id": "i"},
        "tools": [{"auth": {"kind": "***", "list": ["***", 5]}}],
        "key": 5,
        "stop": ["a"],
    }  # fmt: skip


def test_mask_values_finds_them_anywhere() -> None:
    data = {"a": "Bearer sk-123456", "b": ["sk-123456", {"c": ("x", 5, None)}]}
    assert mask_values(data, ["sk-123456"]) == {"a": "Bearer ***", "b": ["***", {"c": ["x", 5, None]}]}


def test_short_values_are_masked_only_where_they_are_everything() -> None:
    assert mask_values(["one", "1", "10"], ["1"]) == ["one", "***", "10"]


def test_the_longer_of_two_secrets_goes_first() -> None:
    assert mask_values("secret-longer", ["secret-", "secret-longer"]) == "***"
    assert mask_values("a secret-longer", ["secret-", "secret-longer"]) == "a ***"
