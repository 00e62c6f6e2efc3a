//! Addresses of networks: IPs, CIDRs, URLs.

use std::{collections::BTreeMap, fmt, net::IpAddr, sync::Arc};

use crate::{
    eval::{EvalError, Evaluated},
    value::{Key, Value},
};

/// A network: an address, and how many bits of it all its members share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

/// A URL in its parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Url {
    scheme: String,
    /// With the port.
    host: String,
    path: String,
    query: Vec<(String, String)>,
}

pub(super) fn call(function: &str, is_method: bool, args: &[Value]) -> Option<Evaluated> {
    if let [Value::Url(url)] = args {
        return url.part(function);
    }
    Some(match (function, args) {
        ("ip", [Value::String(text)]) => address(text).map(Value::Ip),
        ("isIP", [Value::String(text)]) => Ok(Value::Bool(address(text).is_ok())),
        ("ip.isCanonical", [Value::String(text)]) => address(text).map(|ip| Value::Bool(ip.to_string() == **text)),
        ("cidr", [Value::String(text)]) => Cidr::parse(text).map(Value::Cidr),
        ("isCIDR", [Value::String(text)]) => Ok(Value::Bool(Cidr::parse(text).is_ok())),
        ("url", [Value::String(text)]) => Url::parse(text)
            .map(|url| Value::Url(Arc::new(url)))
            .map_err(|why| EvalError::Other(format!("URL parse error during conversion from string: {why}"))),
        ("isURL", [Value::String(text)]) => Ok(Value::Bool(Url::parse(text).is_ok())),
        (_, [Value::Ip(ip)]) if is_method => return property(function, *ip).map(Ok),
        ("ip", [Value::Cidr(network)]) if is_method => Ok(Value::Ip(network.address)),
        ("prefixLength", [Value::Cidr(network)]) => Ok(Value::Int(network.bits.into())),
        ("masked", [Value::Cidr(network)]) => Ok(Value::Cidr(network.masked())),
        ("containsIP", [Value::Cidr(network), Value::Ip(ip)]) => Ok(Value::Bool(network.contains(*ip))),
        ("containsIP", [Value::Cidr(network), Value::String(text)]) => {
            address(text).map(|ip| Value::Bool(network.contains(ip)))
        }
        ("containsCIDR", [Value::Cidr(network), Value::Cidr(other)]) => Ok(Value::Bool(network.covers(other))),
        ("containsCIDR", [Value::Cidr(network), Value::String(text)]) => {
            Cidr::parse(text).map(|other| Value::Bool(network.covers(&other)))
        }
        _ => return None,
    })
}

fn address(text: &str) -> Result<IpAddr, EvalError> {
    let wrong =
        |why: &str| EvalError::Other(format!("IP Address {text:?} parse error during conversion from string: {why}"));
    if text.contains('%') {
        return Err(wrong("IP address with zone value is not allowed"));
    }
    let address: IpAddr = text.parse().map_err(|_| wrong(&format!("ParseAddr({text:?}): unable to parse IP")))?;
    match address {
        IpAddr::V6(inner) if inner.to_ipv4_mapped().is_some() => Err(wrong("IPv4-mapped IPv6 address is not allowed")),
        address => Ok(address),
    }
}

fn property(function: &str, ip: IpAddr) -> Option<Value> {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let is_local_multicast = match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    };
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    Some(match function {
        "family" => Value::Int(if ip.is_ipv4() { 4 } else { 6 }),
        "isUnspecified" => Value::Bool(ip.is_unspecified()),
        "isLoopback" => Value::Bool(ip.is_loopback()),
        "isLinkLocalUnicast" => Value::Bool(is_link_local),
        "isLinkLocalMulticast" => Value::Bool(is_local_multicast),
        "isGlobalUnicast" => Value::Bool(
            !(is_broadcast || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_link_local),
        ),
        _ => return None,
    })
}

impl Cidr {
    fn parse(text: &str) -> Result<Cidr, EvalError> {
        let wrong =
            |why: String| EvalError::Other(format!("network address parse error during conversion from string: {why}"));
        let unreadable = || wrong(format!("netip.ParsePrefix({text:?}): no '/'"));
        let (before, bits) = text.split_once('/').ok_or_else(unreadable)?;
        let address: IpAddr = before
            .parse()
            .map_err(|_| wrong(format!("netip.ParsePrefix({text:?}): ParseAddr({before:?}): unable to parse IP")))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let is_plain = !bits.is_empty()
            && bits.chars().all(|digit| digit.is_ascii_digit())
            && (bits == "0" || !bits.starts_with('0'));
        let bits = bits.parse::<u8>().ok().filter(|bits| is_plain && *bits <= most);
        let bits = bits.ok_or_else(|| wrong(format!("netip.ParsePrefix({text:?}): prefix length out of range")))?;
        Ok(Cidr { address, bits })
    }

    /// The network without the part that its members do not share.
    fn masked(&self) -> Cidr {
        let address = match self.address {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or_default();
                IpAddr::V4((u32::from(ip) & mask).into())
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or_default();
                IpAddr::V6((u128::from(ip) & mask).into())
            }
        };
        Cidr { address, bits: self.bits }
    }

    fn contains(&self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.address.is_ipv4() && Cidr { address: ip, bits: self.bits }.masked() == self.masked()
    }

    fn covers(&self, other: &Cidr) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.bits)
    }
}

impl Url {
    /// Reads an absolute URL or an absolute path, as a request for one is read.
    pub(crate) fn parse(text: &str) -> Result<Url, String> {
        let invalid = |why: &str| format!("parse {text:?}: {why}");
        if text.is_empty() {
            return Err("parse \"\": empty url".into());
        }
        if text.chars().any(|letter| letter.is_ascii_control()) {
            return Err(invalid("net/url: invalid control character in URL"));
        }
        let (scheme, rest) = match text.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
            Some(("", _)) => return Err(invalid("missing protocol scheme")),
            _ => (String::new(), text),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            return Err(invalid("invalid URI for request"));
        }
        let (host, path) = match rest.strip_prefix("//") {
            Some(after) if !scheme.is_empty() => {
                let (host, path) = after.split_at(after.find('/').unwrap_or(after.len()));
                (host.rsplit('@').next().unwrap_or_default(), path)
            }
            _ => ("", rest),
        };
        if host.contains([' ', '<', '>', '"', '\\', '^', '`', '{', '}']) {
            return Err(invalid("invalid character in host name"));
        }
        let port = port_of(host);
        if !port.chars().all(|digit| digit.is_ascii_digit()) {
            return Err(invalid(&format!("invalid port \":{port}\" after host")));
        }
        let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        });
        Ok(Url { scheme, host: host.into(), path: path.into(), query: query.collect() })
    }

    fn part(&self, function: &str) -> Option<Evaluated> {
        let hostname = self.host.strip_suffix(port_of(&self.host)).unwrap_or(&self.host);
        Some(Ok(match function {
            "getScheme" => Value::from(self.scheme.as_str()),
            "getHost" => Value::from(self.host.as_str()),
            "getHostname" => Value::from(hostname.trim_end_matches(':').trim_matches(['[', ']'])),
            "getPort" => Value::from(port_of(&self.host)),
            "getEscapedPath" => Value::from(self.path.as_str()),
            "getQuery" => {
                let mut values: BTreeMap<Key, Vec<Value>> = BTreeMap::new();
                for (name, value) in &self.query {
                    values.entry(Key::String(name.as_str().into())).or_default().push(Value::from(value.as_str()));
                }
                Value::map(values.into_iter().map(|(name, values)| (name, Value::list(values))).collect())
            }
            _ => return None,
        }))
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
}

fn port_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((_, port)) if !port.contains(']') => port,
        _ => "",
    }
}

/// A part of a query without its escapes.
fn decoded(text: &str) -> String {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match (first, escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            (byte, _) => {
                bytes.push(if *byte == b'+' { b' ' } else { *byte });
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
