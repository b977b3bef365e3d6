//! `udp`, `udp_allow` and `udp_buffer` of a stream: where its datagrams come in, and whose.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use super::UdpSource;
use crate::config::read;
use crate::config::reader::Reader;

/// What a burst may bring while the node is busy for a moment.
const BUFFER: u64 = 8 << 20;

const BUFFERS: RangeInclusive<u64> = 64 << 10..=1 << 30;

/// Reads the door of a stream for datagrams; `is_line` unless it is known that the stream is none of lines.
pub(super) fn read_udp(reader: &mut Reader<'_>, is_line: bool) -> Option<UdpSource> {
    let listen = reader.read("udp", read::address);
    let allow = reader.read("udp_allow", read::networks);
    let buffer = reader.read("udp_buffer", |raw| read::size(raw, BUFFERS));
    let Some(entry) = reader.entry("udp") else {
        for setting in ["udp_allow", "udp_buffer"] {
            if let Some(entry) = reader.entry(setting)
                && !reader.may_have("udp")
            {
                reader.explain(setting, &entry.span, "it has no use without 'udp'");
            }
        }
        return None;
    };
    if !is_line {
        let reason = "datagrams hold lines: add form = \"line\" (or \"line-loose\")";
        reader.explain("udp", &entry.span, reason);
    }
    let listen = listen?;
    if !listen.ip().is_loopback()
        && reader.get("udp_allow").is_none()
        && !reader.may_have("udp_allow")
    {
        let reason = format!(
            "other machines can reach {listen}, so programs on them could send events; list the networks \
             that may send, as in udp_allow = [\"10.0.0.0/8\"], or listen on 127.0.0.1"
        );
        reader.explain("udp", &entry.value.span, reason);
    }
    let allow = allow.unwrap_or_default();
    Some(UdpSource { listen, allow, buffer: buffer.unwrap_or(BUFFER) })
}

/// The stream that has this address already, if its port is one that is kept.
pub(super) fn taken<'a>(
    streams: impl Iterator<Item = (&'a String, &'a UdpSource)>,
    listen: SocketAddr,
) -> Option<&'a str> {
    let mut same = streams.filter(|(_, source)| source.listen == listen && listen.port() != 0);
    same.next().map(|(name, _)| name.as_str())
}
