import logging
import socket
from ipaddress import ip_address

import pytest

from diptych.errors import RemoteError, RemoteRefusedError
from diptych.pictures.url_guard import FetchLimits, parse_url, resolve_public

PUBLIC, OTHER, PUBLIC6 = "93.184.216.34", "1.1.1.1", "2606:4700:4700::1111"


def checked(text: str, limits: FetchLimits | None = None, *found: str) -> list[str]:
    """All checks of one hop, for a host that resolves to `found`."""
    limits = limits or FetchLimits()
    addresses = resolve_public(parse_url(text, limits), limits, lambda host: found or [PUBLIC])
    return [str(address) for address in addresses]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ftp://example.org/a.jpg", "expected one that begins with http:// or https://, got 'ftp'"),
        ("file:///etc/passwd", "got 'file'"),
        ("example.org/a.jpg", "got 'example.org/a.jpg'"),
        ("", "got ''"),
        ("http:///a.jpg", "expected a host like example.org"),
        ("https://user:secret@example.org/", "no user name and no password"),
        ("https://example.org@127.0.0.1/", "no user name and no password"),
        ("https://example.org:22/", "expected port 80 or 443, got 22"),
        ("https://example.org:0/", "expected port 80 or 443, got 0"),
        ("https://example.org:8o/", "it cannot be read: Invalid port"),
        ("https://😀.example/", "it cannot be read: Invalid IDNA hostname"),
        (" https://example.org/", "expected no spaces, control characters or backslashes, got ' '"),
        ("https://example.org/a b.jpg", "got ' '"),
        ("https://example.org/\r\nHost: other.example", r"got '\\r'"),
        ("https://example.org/\x00", r"got '\\x00'"),
        ("https://exam\u200bple.org/", r"got '\\u200b'"),
        ("https://example.org\\@127.0.0.1/", r"got '\\\\'"),
        ("https://example.org/" + "a" * 2029, "expected at most 2,048 characters, got 2,049"),
    ],
)
def test_what_is_no_plain_web_address_is_refused_and_told_why(text, reason):
    with pytest.raises(RemoteRefusedError, match=f"^the web address is refused: .*{reason}") as caught:
        checked(text)
    assert caught.value.code == "remote_url_refused"


@pytest.mark.parametrize(
    "host",
    [
        *("2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "127.0.1", "127.0.0.01", "256.1.1.1"),
        *("1.2.3.4.5", "0", "0x", "example.0x7f", "example.1", "①②⑦.0.0.1", "127.0.0.1.", "example.org.", "localhost."),
        *("[fe80::1%25eth0]", "[fe80::1%eth0]", f"[{PUBLIC6}%25eth0]", "[::g]", "[1.2.3.4]", "%31%32%37.0.0.1"),
        *("ex%61mple.org", "a..b", ".example.org", "-a.example", "a-.example", "a;b", "a,b", "a'b", "$a", "xn--"),
        *("a" * 64 + ".example", ".".join(["a" * 60] * 5)),
    ],
)
@pytest.mark.parametrize("private", [False, True])
def test_a_host_in_an_odd_spelling_is_refused_whatever_it_resolves_to(host, private):
    with pytest.raises(RemoteRefusedError, match=r"expected a host like|it cannot be read"):
        checked(f"http://{host}/a.jpg", FetchLimits(private=private))


INSIDE = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "100.127.255.255", "127.0.0.1", "127.8.8.8"),
    *("169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.9", "192.0.0.77", "192.0.2.7"),
    *("192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.3", "203.0.113.9", "224.0.0.1", "240.0.0.1"),
    *("255.255.255.255", "168.63.129.16", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1"),
    *("::ffff:0:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "64:ff9b::169.254.1.1"),
    *("64:ff9b:1::7f00:1", "64:ff9b:1::808:808", "100::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2"),
    *("2001:db8::1", "2002:7f00:1::", "2002:a00:1::1", "2002:808:808::1", "5f00::1", "fc00::1", "fd00:ec2::254"),
    *("fd12:3456::1", "fe80::1", "fe80::1%eth0", "febf::1", "fec0::1", "ff02::1", "ff0e::1"),
]


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_that_is_not_public_is_refused_by_itself_and_behind_a_name_and_never_told(address, caplog):
    caplog.set_level(logging.INFO, "diptych.pictures.url_guard")
    with pytest.raises(RemoteRefusedError, match="is not, or not only, on the public internet") as caught:
        checked("https://inside.example/a.jpg", None, address)
    assert address not in str(caught.value)
    assert caplog.messages == [f"inside.example is refused for {ip_address(address)}"]
    if "%" not in address:
        host = f"[{address}]" if ":" in address else address
        with pytest.raises(RemoteRefusedError, match="on the public internet"):
            checked(f"http://{host}/a.jpg")


@pytest.mark.parametrize(
    "address",
    [PUBLIC, OTHER, PUBLIC6, "100.63.255.255", "172.32.0.1", "192.0.1.1", "223.255.255.1", "64:ff9b::8.8.8.8"],
)
def test_a_public_address_is_taken_by_itself_and_behind_a_name(address):
    assert checked("https://pictures.example/a.jpg", None, address) == [str(ip_address(address))]
    host = f"[{address}]" if ":" in address else address
    assert checked(f"http://{host}/a.jpg", None, "127.0.0.1") == [str(ip_address(address))]


@pytest.mark.parametrize("found", [(PUBLIC, "127.0.0.1"), (PUBLIC6, PUBLIC, "::1", OTHER)])
def test_one_bad_address_of_a_name_refuses_all(found):
    with pytest.raises(RemoteRefusedError, match="not only, on the public internet"):
        checked("https://mixed.example/", None, *found)
    assert checked("https://many.example/", None, OTHER, PUBLIC6, PUBLIC, OTHER) == [OTHER, PUBLIC6, PUBLIC]


PRIVATE = ["127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "::1", "fd12::1", "::ffff:10.0.0.1"]
NEVER = [
    *("169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1"),
    *("ff02::1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
]


@pytest.mark.parametrize("address", [*PRIVATE, *NEVER])
def test_an_intranet_is_opened_on_demand_but_for_metadata_services_and_what_is_no_host(address):
    with pytest.raises(RemoteRefusedError):
        checked("http://intranet/", None, address)
    if address in PRIVATE:
        assert checked("http://intranet/", FetchLimits(private=True), address) == [str(ip_address(address))]
    else:
        with pytest.raises(RemoteRefusedError):
            checked("http://intranet/", FetchLimits(private=True), address)


@pytest.mark.parametrize("error", [socket.gaierror(-2, "Name or service not known at 10.0.0.53"), None])
def test_a_name_without_an_address_is_an_error_that_tells_nothing_of_the_resolver(error):
    def resolve(host):
        if error:
            raise error
        return []

    limits = FetchLimits()
    with pytest.raises(RemoteError, match=r"^no address is known for a\.example; check how it is spelled$") as caught:
        resolve_public(parse_url("http://a.example/", limits), limits, resolve)
    assert caught.value.code == "remote_failed"


@pytest.mark.parametrize(
    ("hosts", "allowed", "refused"),
    [
        (("example.org",), ["example.org", "EXAMPLE.org"], ["www.example.org", "example.org.evil.example"]),
        ((".example.org",), ["example.org", "a.b.example.org"], ["badexample.org", "org", "example.com"]),
        (("a.example", ".b.example"), ["a.example", "x.b.example"], ["x.a.example", "c.example"]),
        ((OTHER, PUBLIC6), [OTHER, f"[{PUBLIC6}]", "[2606:4700:4700:0::1111]"], [PUBLIC, "[2606:4700:4700::1001]"]),
    ],
)
def test_only_listed_hosts_are_asked_when_there_is_a_list(hosts, allowed, refused):
    limits = FetchLimits(hosts=hosts)
    assert all(checked(f"https://{host}/a.jpg", limits) for host in allowed)
    for host in refused:
        with pytest.raises(RemoteRefusedError, match="is not among the hosts that may be asked"):
            checked(f"https://{host}/a.jpg", limits)
    if "example" in hosts[0]:
        with pytest.raises(RemoteRefusedError, match="on the public internet"):
            checked(f"https://{allowed[0]}/a.jpg", limits, "127.0.0.1")


def test_a_name_that_is_not_ascii_goes_by_its_ascii_form():
    asked = []
    limits = FetchLimits(hosts=("xn--bcher-kva.example",))
    url = parse_url("https://BÜCHER.example/ä.jpg?q=ö", limits)
    resolve_public(url, limits, lambda host: asked.append(host) or [PUBLIC])
    assert asked == ["xn--bcher-kva.example"]
    assert url.raw_path == b"/%C3%A4.jpg?q=%C3%B6"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"bytes": 0}, "expected bytes >= 1"),
        ({"seconds": 0.0}, "seconds > 0"),
        ({"seconds": float("nan")}, "seconds > 0"),
        ({"redirects": -1}, r"redirects >= 0, got .*redirects=-1"),
        ({"hosts": ("https://example.org",)}, "got 'https://example.org'"),
        ({"hosts": ("1.2.3",)}, "got '1.2.3'"),
        ({"hosts": ("2606:4700::0:1",)}, "got '2606:4700::0:1'"),
        ({"hosts": ("*.example.org",)}, "in lower case, got '\\*.example.org'"),
        ({"hosts": ("Example.org",)}, "got 'Example.org'"),
        ({"hosts": ("bücher.example",)}, "got 'bücher.example'"),
    ],
)
def test_limits_that_make_no_sense_are_refused_when_they_are_made(options, reason):
    with pytest.raises(ValueError, match=reason):
        FetchLimits(**options)
