//! Which addresses may be reached. Whoever may make a webhook must not thereby reach what only this machine can.
//!
//! The name is resolved by us, and the connection goes to an address that was looked at: a name that says another address
//! the second time gains nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// The longest URL that is stored.
const LONGEST: usize = 2_048;

/// What is allowed beyond public addresses and TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) private: bool,
    pub(crate) loopback: bool,
    pub(crate) http: bool,
}

/// Where an address leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Public,
    /// This machine.
    Loopback,
    /// A network of somebody's own.
    Private,
    /// Neighbours on the wire, a cloud's metadata service, or no host at all: never.
    Never,
}

/// Metadata services that are not in a range of neighbours. Whoever asks them gets the machine's own credentials of its
/// cloud, so no setting opens them.
const METADATA_V4: [Ipv4Addr; 3] = [
    // Alibaba Cloud, inside the shared range.
    Ipv4Addr::new(100, 100, 100, 200),
    // Azure, beside public addresses.
    Ipv4Addr::new(168, 63, 129, 16),
    // Oracle Cloud's classic machines.
    Ipv4Addr::new(192, 0, 0, 192),
];

fn place(ip: IpAddr) -> Place {
    match ip {
        IpAddr::V4(ip) => place_v4(ip),
        IpAddr::V6(ip) => place_v6(ip),
    }
}

fn place_v4(ip: Ipv4Addr) -> Place {
    if METADATA_V4.contains(&ip) {
        return Place::Never;
    }
    let [a, b, c, _] = ip.octets();
    match (a, b, c) {
        (127, ..) => Place::Loopback,
        (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => Place::Private,
        // "This network", link-local with metadata services, protocol assignments, documentation, benchmarks,
        // multicast, reserved and broadcast.
        (0 | 224..=255, ..) | (169, 254, _) | (192, 0, 0 | 2) | (192, 88, 99) => Place::Never,
        (198, 18 | 19, _) | (198, 51, 100) | (203, 0, 113) => Place::Never,
        _ => Place::Public,
    }
}

fn place_v6(ip: Ipv6Addr) -> Place {
    if ip == Ipv6Addr::LOCALHOST {
        return Place::Loopback;
    }
    let part = ip.segments();
    // Addresses that carry another one are what that one is: mapped, compatible, translated, 6to4.
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        place_v4(Ipv4Addr::new(a, b, c, d))
    };
    match part {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] if ip != Ipv6Addr::UNSPECIFIED => v4(high, low),
        [0, 0, 0, 0, 0xffff, 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        // Metadata services in what is otherwise private: the networks that AWS (with the credentials of pods) and Google
        // Cloud keep for themselves, Oracle Cloud and Scaleway.
        [0xfd00, 0xec2, ..] | [0xfd20, 0xce, 0, 0, ..] => Place::Never,
        [0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe] | [0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42] => Place::Never,
        [0xfc00..=0xfdff, ..] => Place::Private,
        // Local translation, Teredo and other assignments, documentation.
        [0x64, 0xff9b, ..] | [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Place::Never,
        // What is given out to the world.
        [0x2000..=0x3fff, ..] => Place::Public,
        _ => Place::Never,
    }
}

/// A URL without its path and query, where tokens of receivers are.
pub(crate) fn host_only(url: &str) -> String {
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(|url| Some((url.scheme(), url.host_str()?, url.port())));
    match host {
        Some((scheme, host, Some(port))) => format!("{scheme}://{host}:{port}/…"),
        Some((scheme, host, None)) => format!("{scheme}://{host}/…"),
        None => "…".to_owned(),
    }
}

impl Reach {
    /// Says no to an address, with a sentence.
    pub(crate) fn address(self, ip: IpAddr) -> Result<(), String> {
        let what = match place(ip) {
            Place::Public => return Ok(()),
            Place::Loopback if self.loopback || self.private => return Ok(()),
            Place::Private if self.private => return Ok(()),
            Place::Loopback => "this machine itself",
            Place::Private => "a private network",
            Place::Never => {
                return Err(format!(
                    "{ip} is not an address that a receiver can have: metadata services of clouds, neighbours on the wire and \
                     reserved addresses are never reached, whatever the settings say"
                ));
            }
        };
        Err(format!("{ip} is {what}; if a receiver there is wanted, set webhooks.allow_private = true"))
    }

    /// Reads where an endpoint is, and says no to what may not be reached, as far as the text tells.
    pub(crate) fn url(self, text: &str) -> Result<Url, String> {
        if text.len() > LONGEST {
            return Err(format!("it may have at most {LONGEST} bytes"));
        }
        let url = Url::parse(text).map_err(|error| format!("{text:?} is not a URL: {error}"))?;
        match url.scheme() {
            "https" => {}
            "http" if self.http => {}
            "http" => {
                return Err(
                    "events must not travel in clear: use https, or set webhooks.allow_http = true".into()
                );
            }
            other => return Err(format!("{other} URLs cannot be used: use https")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "user names and passwords do not belong into a URL: the signature says who sends".into()
            );
        }
        let host = url.host_str().ok_or_else(|| format!("{text:?} names no host"))?;
        if let Ok(ip) = host.trim_matches(['[', ']']).parse() {
            self.address(ip)?;
        }
        Ok(url)
    }

    /// Names into addresses, without those that may not be reached.
    pub(crate) fn resolver(self) -> Arc<Resolver> {
        Arc::new(Resolver(self))
    }
}

pub(crate) struct Resolver(Reach);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0;
        Box::pin(async move {
            let all: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let mut refused = None;
            let mut good = Vec::new();
            for address in all {
                match reach.address(address.ip()) {
                    Ok(()) => good.push(address),
                    Err(why) => refused = Some(why),
                }
            }
            match refused {
                Some(why) if good.is_empty() => Err(format!("{}: {why}", name.as_str()).into()),
                _ => Ok(Box::new(good.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOSED: Reach = Reach { private: false, loopback: false, http: false };
    const OPEN: Reach = Reach { private: true, loopback: true, http: true };
    const DEV: Reach = Reach { private: false, loopback: true, http: true };

    #[test]
    fn public_addresses_are_reached() {
        for ip in [
            "1.1.1.1",
            "8.8.8.8",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
        ] {
            assert!(CLOSED.address(ip.parse().unwrap()).is_ok(), "{ip}");
        }
    }

    #[test]
    fn private_addresses_are_reached_only_where_that_is_allowed_however_they_are_written() {
        for ip in [
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "fd12::1",
            "fc00::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "::10.0.0.1",
        ] {
            let ip = ip.parse().unwrap();
            assert!(CLOSED.address(ip).unwrap_err().contains("allow_private"), "{ip}");
            assert!(DEV.address(ip).is_err() && OPEN.address(ip).is_ok(), "{ip}");
        }
        for ip in ["127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.1"] {
            let ip = ip.parse().unwrap();
            assert!(
                CLOSED.address(ip).is_err() && DEV.address(ip).is_ok() && OPEN.address(ip).is_ok(),
                "{ip}"
            );
        }
    }

    #[test]
    fn metadata_services_of_clouds_are_never_reached_whatever_is_allowed_and_however_they_are_written() {
        let by_v4 =
            ["169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.42.42", "100.100.100.200"];
        for ip in by_v4.into_iter().chain(["168.63.129.16", "192.0.0.192"]) {
            let v4: Ipv4Addr = ip.parse().unwrap();
            let [a, b, c, d] = v4.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            for ip in [
                IpAddr::V4(v4),
                IpAddr::V6(v4.to_ipv6_mapped()),
                IpAddr::V6(v4.to_ipv6_compatible()),
                IpAddr::V6(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low)),
                IpAddr::V6(Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1)),
            ] {
                let refused = OPEN.address(ip).unwrap_err();
                assert!(refused.contains("never reached"), "{ip}: {refused}");
            }
        }
        for ip in [
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd00:ec2:0:0:1::254",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "fd00:42::42",
            "fe80::a9fe:a9fe",
        ] {
            let ip = ip.parse().unwrap();
            assert!(OPEN.address(ip).unwrap_err().contains("never reached"), "{ip}");
            assert!(CLOSED.address(ip).unwrap_err().contains("never reached"), "{ip}: no setting helps");
            assert!(OPEN.url(&format!("http://[{ip}]/latest")).is_err(), "{ip}");
        }
        assert!(OPEN.url("http://168.63.129.16/machine?comp=goalstate").is_err());
        assert!(OPEN.url("http://0xa83f8110/").is_err(), "the same as a number");
        // Their neighbours are what they were.
        for ip in ["fd00:ec3::254", "fd20:cf::254", "fd00:42::43", "100.100.100.201"] {
            assert!(OPEN.address(ip.parse().unwrap()).is_ok(), "{ip}");
        }
        assert!(CLOSED.address("168.63.129.17".parse().unwrap()).is_ok());
    }

    #[test]
    fn neighbours_and_no_hosts_are_never_reached() {
        for ip in [
            "fe80::1",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
        ] {
            assert!(OPEN.address(ip.parse().unwrap()).is_err(), "{ip}");
        }
    }

    #[test]
    fn only_urls_that_may_be_reached_are_taken() {
        for url in ["https://example.com/hook", "https://example.com:8443/a?b=c", "https://8.8.8.8/"] {
            assert!(CLOSED.url(url).is_ok(), "{url}");
        }
        for url in [
            "http://example.com/",
            "ftp://example.com/",
            "file:///etc/passwd",
            "https://user:secret@example.com/",
            "https://user@example.com/",
            "https://127.0.0.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://169.254.169.254/latest/meta-data",
            "example.com",
            "",
        ] {
            assert!(CLOSED.url(url).is_err(), "{url}");
        }
        assert!(DEV.url("http://127.0.0.1:9000/hook").is_ok());
        assert!(CLOSED.url(&format!("https://example.com/{}", "a".repeat(LONGEST))).is_err());
    }

    #[test]
    fn of_a_url_only_scheme_host_and_port_are_left() {
        for (url, left) in [
            ("https://hooks.example.com/T01/B02/tok3n?key=s3cret#part", "https://hooks.example.com/…"),
            ("https://example.com:8443?key=s3cret", "https://example.com:8443/…"),
            ("https://user:s3cret@example.com", "https://example.com/…"),
            ("http://[::1]:9000/a", "http://[::1]:9000/…"),
            ("not a URL with s3cret", "…"),
        ] {
            assert_eq!(host_only(url), left);
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_to_this_machine_is_not_followed() {
        let name = || "localhost".parse().unwrap();
        let refused = CLOSED.resolver().resolve(name()).await.err().expect("localhost is this machine");
        assert!(refused.to_string().contains("allow_private"), "{refused}");
        assert!(DEV.resolver().resolve(name()).await.unwrap().count() > 0);
    }
}
