//! Links from a page to pages, to headings and to files of the project.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The links of a page that lead nowhere. `exists` and `read` look at files by their paths from the root.
pub(crate) fn broken(
    file: &str,
    text: &str,
    exists: &dyn Fn(&str) -> bool,
    read: &dyn Fn(&str) -> String,
) -> Vec<String> {
    let mut broken = Vec::new();
    let undefined = |link: pulldown_cmark::BrokenLink<'_>| {
        Some((format!("undefined:{}", link.reference).into(), "".into()))
    };
    let parser =
        Parser::new_with_broken_link_callback(text, Options::ENABLE_TABLES, Some(undefined));
    for (event, range) in parser.into_offset_iter() {
        let target = match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => dest_url,
            _ => continue,
        };
        let line = text[..range.start].matches('\n').count() + 1;
        if let Some(reason) = wrong(file, text, &target, exists, read) {
            broken.push(format!("{file}:{line}: the link to '{target}' is broken: {reason}"));
        }
    }
    broken
}

/// The names of a page's headings, as links write them.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for heading in headings(text) {
        let plain = slug(&heading);
        let mut anchor = plain.clone();
        let mut repeats = 0;
        while anchors.contains(&anchor) {
            repeats += 1;
            anchor = format!("{plain}-{repeats}");
        }
        anchors.push(anchor);
    }
    anchors
}

/// The plain text of each heading.
pub(crate) fn headings(text: &str) -> Vec<String> {
    let mut headings = Vec::new();
    let mut current: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => current = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut current {
                    heading.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => headings.extend(current.take()),
            _ => {}
        }
    }
    headings
}

/// The targets of all links of a page that are files, by their paths from the root.
pub(crate) fn targets(file: &str, text: &str) -> Vec<String> {
    let links = Parser::new_ext(text, Options::ENABLE_TABLES).filter_map(|event| match event {
        Event::Start(Tag::Link { dest_url, .. }) => Some(dest_url.to_string()),
        _ => None,
    });
    let local = links.filter(|link| !is_elsewhere(link) && !link.starts_with('#'));
    local.filter_map(|link| resolve(file, link.split('#').next().unwrap_or_default())).collect()
}

fn is_elsewhere(target: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme))
}

fn wrong(
    file: &str,
    text: &str,
    target: &str,
    exists: &dyn Fn(&str) -> bool,
    read: &dyn Fn(&str) -> String,
) -> Option<String> {
    if is_elsewhere(target) {
        return None;
    }
    if target.starts_with("undefined:") {
        return Some("its reference is not defined".to_owned());
    }
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let (path, text) = match path {
        "" => (file.to_owned(), text.to_owned()),
        path => match resolve(file, path) {
            Some(path) if exists(&path) && path.ends_with(".md") => (path.clone(), read(&path)),
            Some(path) if exists(&path) => (path, String::new()),
            _ => return Some("there is no such file".to_owned()),
        },
    };
    match anchor {
        Some(anchor) if !anchors(&text).iter().any(|found| found == anchor) => {
            Some(format!("{path} has no heading '{anchor}'"))
        }
        _ => None,
    }
}

/// The path from the root, of a path that a page names. None beyond the root.
fn resolve(file: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchor that code forges make of a heading: lower case, hyphens for blanks, no punctuation.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}
