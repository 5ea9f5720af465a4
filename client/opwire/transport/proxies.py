"""The proxy that the environment names for a server: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY."""

from __future__ import annotations

from urllib.request import getproxies, proxy_bypass

import httpx


def proxy_for(url: httpx.URL) -> httpx.Proxy | None:
    """The proxy for requests to a server, or None.

    Raises:
        ValueError: the environment names one that is not a URL.
    """
    proxies = getproxies()
    named = proxies.get(url.scheme) or proxies.get("all")
    if not named or proxy_bypass(url.netloc.decode("ascii")):
        return None
    try:
        return httpx.Proxy(named if "://" in named else f"http://{named}")
    except (httpx.InvalidURL, ValueError) as error:
        raise ValueError(f"the environment names the proxy {named!r} for {url.scheme}: {error}") from error


def unreached(proxy: httpx.Proxy | None) -> str:
    """What went wrong where there is no connection to a server; a proxy is named without its password."""
    return "no connection" if proxy is None else f"no connection over the proxy {proxy.url.host} of the environment"
