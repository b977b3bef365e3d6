//! Which addresses may be connected to. A URL that others may have chosen must not lead to this machine, to
//! the private network behind it, or to a cloud's metadata.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Anywhere,
    PublicOnly,
}

impl Reach {
    /// Those of a host's addresses that may be connected to; if there is none, why not.
    pub(super) fn allowed(
        self,
        found: impl Iterator<Item = SocketAddr>,
    ) -> Result<Vec<SocketAddr>, String> {
        let (allowed, refused): (Vec<_>, Vec<_>) =
            found.partition(|address| self == Reach::Anywhere || is_public(address.ip()));
        match (allowed.is_empty(), refused.first()) {
            (false, _) => Ok(allowed),
            (true, None) => Err("the host has no address".into()),
            (true, Some(address)) => Err(format!(
                "its address {} is not a public one; if it is meant, set allow_private = true",
                address.ip()
            )),
        }
    }
}

/// Whether an address is one of the open internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(address) => is_public_v4(address),
            None => is_public_v6(address),
        },
    }
}

/// The IPv4 address that an IPv6 address leads to: mapped, compatible, translated (NAT64) or tunnelled (6to4).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] => Some(v4(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] if high > 0 => Some(v4(high, low)),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let refused = address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        // Shared by a provider's customers; one cloud has its metadata there.
        || (a == 100 && (64..128).contains(&b))
        // Protocol assignments, benchmarks, reserved.
        || (a, b, c) == (192, 0, 0)
        || (a == 198 && (18..20).contains(&b))
        || a >= 240;
    !refused
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    // All that is handed out so far is within 2000::/3; documentation and Teredo are not for use.
    let [a, b, ..] = address.segments();
    (a & 0xe000) == 0x2000 && (a, b) != (0x2001, 0xdb8) && (a, b) != (0x2001, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_open_internet_are_public() {
        for public in ["1.1.1.1", "93.184.216.34", "100.63.0.1", "100.128.0.1", "2606:4700::1111"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for refused in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(!is_public(refused.parse().unwrap()), "{refused}");
        }
    }

    #[test]
    fn of_several_addresses_only_the_allowed_are_used() {
        let found = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 80)).collect()
        };
        let mixed = found(&["10.0.0.1", "1.1.1.1"]);
        let public = Reach::PublicOnly.allowed(mixed.iter().copied());
        assert_eq!(public, Ok(found(&["1.1.1.1"])));
        assert_eq!(Reach::Anywhere.allowed(mixed.iter().copied()), Ok(mixed));
        let refused = Reach::PublicOnly.allowed(found(&["127.0.0.1"]).into_iter());
        assert!(refused.unwrap_err().contains("set allow_private = true"));
    }
}
