"""No secret of a URL is shown, whatever its name and wherever it is."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.base.secrets import masked, masked_url
from dask_rac.files.urls import locate

HUSH = "hush4711"

SHOWN = {
    f"https://host/e.parquet?code={HUSH}": "https://host/e.parquet?***",
    f"https://host/e.parquet?x=1&jwt={HUSH}": "https://host/e.parquet?***",
    f"https://host/e.parquet#token={HUSH}": "https://host/e.parquet#***",
    f"https://host?session={HUSH}": "https://host?***",
    f"https://{HUSH}@host/e": "https://***@host/e",
    f"https://me:{HUSH}@host:8443/e": "https://***@host:8443/e",
    f"s3://me%3A{HUSH}@bucket/e": "s3://***@bucket/e",
    f"s3://me%3A{HUSH}%40bucket/e": "s3://***/e",
    f"s3://me%253A{HUSH}%2540bucket/e": "s3://***/e",
    f"s3://me:{HUSH}/with+slash@bucket/e": "s3://***@bucket/e",
    f"S3://me:{HUSH}@bucket/e": "S3://***@bucket/e",
    f"sftp://me:{HUSH}@host/e": "sftp://***@host/e",
    f"abfs://container:{HUSH}@account/e": "abfs://***@account/e",
    f"simplecache::https://host/e?sig={HUSH}": "simplecache::https://host/e?***",
    f"zip://a.csv::https://{HUSH}@host/e": "zip://a.csv::https://***@host/e",
    f"s3://bucket/e?versionId=3&X-Amz-Signature={HUSH}": "s3://bucket/e?***",
    f"https://host/e?versionId={HUSH}": "https://host/e?***",
}

HARMLESS = (
    "s3://bucket/a:b@c",
    "https://host:8080/a@b.parquet",
    "abfs://container@account.dfs.core.windows.net/x",
    "sftp://me@host/x",
    "s3://bucket/run?versionId=3sL4kq_.-",
    "/home/me:you@here/run?token=1#2",
    "what?#.parquet",
    "file:///data/what?#.parquet",
    "memory://run/monkey=1?",
    "tcp://HOST:PORT",
    "tls://[::1]:8786",
)


@pytest.mark.parametrize("url", SHOWN)
def test_secrets_are_masked_and_refused(url: str) -> None:
    assert masked_url(url) == SHOWN[url]
    assert masked(f"no answer from {url} after 3 s") == f"no answer from {SHOWN[url]} after 3 s"
    with pytest.raises(dask_rac.InputError, match="contains credentials") as caught:
        locate(url)
    assert HUSH not in str(caught.value)


@pytest.mark.parametrize("url", HARMLESS)
def test_what_is_harmless_stays(url: str) -> None:
    assert masked_url(url) == masked(url) == url


@given(
    scheme=st.sampled_from(["http", "https", "s3", "gs", "ftp", "abfs", "tcp"]),
    name=st.text(min_size=1, max_size=8),
    where=st.sampled_from(["query", "fragment", "password", "encoded"]),
)
def test_any_name_of_a_secret(scheme: str, name: str, where: str) -> None:
    word = quote(name, safe="")
    url = {
        "query": f"{scheme}://host/x?{word}={HUSH}",
        "fragment": f"{scheme}://host/x#{word}={HUSH}",
        "password": f"{scheme}://{word}:{HUSH}@host/x",
        "encoded": f"{scheme}://{word}%3A{HUSH}%40host/x",
    }[where]
    assert HUSH not in masked_url(url)
    assert HUSH not in masked(f"({url})")


@pytest.mark.parametrize("kind", [dask_rac.InputError, dask_rac.StoreError, dask_rac.ResourceError])
def test_no_error_repeats_a_secret(kind: type[Exception]) -> None:
    """Whichever library wrote the text: messages often quote another error."""
    assert HUSH not in str(kind(f"cannot be read: 403 at https://host/e?code={HUSH}"))
