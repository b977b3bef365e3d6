//! `formats.md`: the versions of stored and wire formats.

use consort_kernel::FormatVersion;

use super::{compare, row};

const HEAD: &str = "
# Formats

What Consort stores and sends carries a version. A node refuses a version that it does not know, and says so.
[Upgrade](../operate/upgrade.md) says how to move between releases.

| format | version | holds |
| --- | --- | --- |
";

#[test]
fn the_page_of_formats_is_current() {
    let crates: [&[FormatVersion]; 9] = [
        consort_engines::FORMATS,
        consort_kernel::format_version::FORMATS,
        consort_views::FORMATS,
        consort_cluster::FORMATS,
        consort_feeds::FORMATS,
        consort_once::FORMATS,
        consort_glue::FORMATS,
        consort_db::FORMATS,
        consort_server::FORMATS,
    ];
    let mut text = HEAD.to_owned();
    for format in crates.iter().copied().flatten() {
        text.push_str(&row(&[format.name, &format.version.to_string(), format.holds]));
    }
    compare("formats.md", &text);
}
