//! The runner itself: pages that are wrong must fail.

use libtest_mimic::{Failed, Trial};

use crate::page::Page;
use crate::{links, namespace, run};

macro_rules! trials {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn trials() -> Vec<Trial> {
            vec![$(Trial::test(concat!("runner/", stringify!($name)), || { $name(); Ok::<(), Failed>(()) })),*]
        }
    };
}

trials![
    the_expected_output_passes,
    a_wrong_output_fails_with_page_and_line,
    a_failing_command_fails_although_others_follow,
    another_exit_code_than_the_promised_one_fails,
    errors_count_where_a_block_names_its_exit_code,
    dots_stand_for_what_varies_and_for_nothing_else,
    json_is_compared_by_its_values,
    a_writing_block_is_never_repeated,
    only_commands_without_data_are_read_only,
    the_last_command_is_a_service_only_if_it_goes_on,
    an_output_behind_a_long_text_is_a_mistake,
    unknown_words_and_languages_are_mistakes,
    titled_files_are_written_before_the_next_block,
    wrong_settings_fail,
    a_fragment_is_checked_with_the_file_before_it,
    a_program_that_does_not_start_fails,
    broken_links_are_found,
    a_killed_node_is_started_again_on_the_same_page,
    without_namespaces_a_page_finds_its_own_programs_alone,
];

/// Runs a page that needs no node.
fn try_page(text: &str) -> Result<(), String> {
    let text = format!("<!-- runner: node=none -->\n{text}");
    let page = Page::parse("p.md", &text).map_err(|mistakes| mistakes.join("\n"))?;
    run::run(&page)
}

#[track_caller]
fn fails(text: &str, words: &str) {
    let failure = try_page(text).expect_err("the page is wrong");
    assert!(failure.contains(words), "{failure}");
}

#[track_caller]
fn passes(text: &str) {
    if let Err(failure) = try_page(text) {
        panic!("{failure}");
    }
}

fn the_expected_output_passes() {
    passes("```sh\necho one; echo two\n```\n\nIt prints:\n\n```text\none\ntwo\n```\n");
}

fn a_wrong_output_fails_with_page_and_line() {
    let page = "```sh\necho one\n```\n```text\ntwo\n```\n";
    fails(page, "p.md:2: the output is not that of line 5");
    fails(page, "--- expected\ntwo\n--- actual\none\n");
}

fn a_failing_command_fails_although_others_follow() {
    fails("```sh\nfalse\necho on\n```\n", "p.md:2: the block ended with exit code 1, not 0");
    fails("```sh\necho $unset\n```\n", "the block ended with exit code 2, not 0");
}

fn another_exit_code_than_the_promised_one_fails() {
    passes("```sh exit=3\nexit 3\n```\n");
    fails("```sh exit=3\nexit 4\n```\n", "exit code 4, not 3");
    fails("```sh exit=3\ntrue\n```\n", "exit code 0, not 3");
}

fn errors_count_where_a_block_names_its_exit_code() {
    passes("```sh exit=1\necho out; echo err >&2; exit 1\n```\n```text\nout\nerr\n```\n");
    passes("```sh stderr\necho err >&2\n```\n```text\nerr\n```\n");
    passes("```sh\necho out; echo err >&2\n```\n```text\nout\n```\n");
}

fn dots_stand_for_what_varies_and_for_nothing_else() {
    let told = "```sh\necho 'took 17 ms on a'; echo more; echo end\n```\n";
    passes(&format!("{told}```text\ntook [..] ms on [..]\n...\nend\n```\n"));
    passes(&format!("{told}```text\n...\ntook 17 ms on a\nmore\n...\nend\n...\n```\n"));
    for wrong in ["took [..] s on a\n...", "took 17 ms\n...", "...\nmore", "took[..]a\nend"] {
        fails(&format!("{told}```text\n{wrong}\n```\n"), "the output is not");
    }
}

fn json_is_compared_by_its_values() {
    let told = "```sh\necho '{\"a\": 1, \"b\": [\"x\", {\"c\": null}]}'\n```\n";
    for right in [r#"{"b": ["x", {"c": null}], "a": 1}"#, r#"{"a": "[..]", "b": ["[..]", "[..]"]}"#]
    {
        passes(&format!("{told}```json\n{right}\n```\n"));
    }
    for wrong in [
        r#"{"a": 2, "b": ["x", {"c": null}]}"#,
        r#"{"a": 1}"#,
        r#"{"a": 1, "b": ["x"]}"#,
        r#"{"a": 1, "b": ["x", {"c": null}], "d": "[..]"}"#,
    ] {
        fails(&format!("{told}```json\n{wrong}\n```\n"), "the output is not");
    }
    fails(&format!("{told}```json\n{{\n```\n"), "this is not JSON");
}

fn a_writing_block_is_never_repeated() {
    let page = "```sh\necho again >> said; wc -l < said\n```\n```text\n2\n```\n";
    fails(page, "--- actual\n1\n");
}

fn only_commands_without_data_are_read_only() {
    use crate::script::only_reads;
    for reads in [
        "curl -fsS 'http://127.0.0.1:7400/views/a?x=1&y=2'",
        "# twice\ncurl http://h/\ncurl http://h/ \\\n  -H 'Accept: text/csv' | sort",
        "curl -G --data-urlencode 'a=b' http://h/",
        "consort status --roles",
    ] {
        assert!(only_reads(reads), "{reads}");
    }
    for writes in [
        "",
        "curl -d x http://h/",
        "curl -fsSd x http://h/",
        "curl -X DELETE http://h/",
        "curl --json '{}' http://h/",
        "curl http://h/ > file",
        "curl http://h/; rm x",
        "curl http://h/ && curl -d x http://h/",
        "curl http://h/ || rm x",
        "curl http://h/\nconsort drain a",
        "consort bench lifts",
    ] {
        assert!(!only_reads(writes), "{writes}");
    }
}

fn the_last_command_is_a_service_only_if_it_goes_on() {
    use crate::script::{Service, service};
    let found = |script: &str| service(script).map(|(service, _)| service);
    assert_eq!(found("consort serve"), Some(Service::Node));
    assert_eq!(found("echo a\nA_B=c consort serve \\\n  -c x.toml\n"), Some(Service::Node));
    assert_eq!(found("consort relay -c r.toml\n"), Some(Service::Relay));
    assert_eq!(found("consort sample-upstream --delay 1s\n"), Some(Service::Upstream));
    assert_eq!(found("redis-server --appendonly yes\n"), Some(Service::Redis));
    for none in
        ["consort serve --help\n", "consort serve\necho on\n", "consort check -c serve\n", ""]
    {
        assert_eq!(found(none), None, "{none}");
    }
    let (_, script) = service("echo a\nA=c consort serve \\\n  -c x\n").expect("a service");
    assert_eq!(script, "echo a\nexec env A=c consort serve \\\n  -c x\n");
}

fn an_output_behind_a_long_text_is_a_mistake() {
    let long = "word ".repeat(30);
    for between in [long.as_str(), "One.\n\nTwo.", "# Heading", "- list"] {
        let page = format!("```sh\necho one\n```\n\n{between}\n\n```text\none\n```\n");
        fails(&page, "this block is compared with nothing");
    }
    passes("```text figure\nnothing\n```\n");
    fails("```text\nnothing\n```\n", "p.md:2: this block is compared with nothing");
}

fn unknown_words_and_languages_are_mistakes() {
    fails("```sh restat\ntrue\n```\n", "a 'sh' block has no option 'restat'");
    fails("```sh exit=x\ntrue\n```\n", "'exit' must be a number");
    fails("```bash\ntrue\n```\n", "blocks of commands are 'sh'");
    fails("```\ntrue\n```\n", "the block has no language");
    fails("```yaml\na: b\n```\n", "a block in 'yaml' needs a title");
    fails("```yaml title=\"../x\"\na: b\n```\n", "a title is a path within the page's folder");
    let page = Page::parse("p.md", "<!-- runner: node=none servers=mysql -->\n");
    assert_eq!(page.expect_err("a mistake"), ["p.md:1: the runner has no server 'mysql'"]);
}

fn titled_files_are_written_before_the_next_block() {
    passes(
        "```python title=\"a/b.py\"\nprint(1)\n```\n```sh\ncat a/b.py\n```\n```text\nprint(1)\n```\n",
    );
}

fn wrong_settings_fail() {
    fails("```toml\n[http]\nlisen = \"a\"\n```\n", "did you mean 'listen'?");
    fails("```toml title=\"c.toml\"\n[http]\nlisen = \"a\"\n```\n", "did you mean 'listen'?");
    fails("```toml\n[relay]\nupd = \"127.0.0.1:1\"\n```\n", "did you mean 'udp'?");
    passes("```toml\n[http]\nlisten = \"127.0.0.1:7401\"\n```\n");
    // A command that uses the file is the check.
    let told = "```sh exit=1\nconsort check -c c.toml\n```\n```text\n...\n[..]did you mean 'listen'?\n...\n```\n";
    passes(&format!("```toml title=\"c.toml\"\n[http]\nlisen = \"a\"\n```\n{told}"));
}

fn a_fragment_is_checked_with_the_file_before_it() {
    let file = "```toml title=\"c.toml\"\n[stream.a]\nfields = { b = \"int\" }\n```\n";
    let view = "```toml fragment\n[view.c]\nfrom = \"a\"\nsum = \"b\"\nby = []\n```\n";
    let fails_alone = try_page(view).expect_err("there is no stream");
    assert!(fails_alone.contains("'a'"), "{fails_alone}");
    passes(&format!("{file}{view}"));
}

fn a_program_that_does_not_start_fails() {
    fails(
        "```sh\nconsort serve -c none.toml\n```\n",
        "the program ended at its start with exit code 1",
    );
}

fn broken_links_are_found() {
    let read = |_: &str| "# One *two*\n\n## `x-y`: z\n\n# One two\n".to_owned();
    let exists = |path: &str| ["docs/a.md", "LICENSE"].contains(&path);
    let broken = |text: &str| links::broken("docs/p.md", text, &exists, &read);
    for right in [
        "[a](a.md)",
        "[a](../docs/a.md#one-two)",
        "[a](a.md#one-two-1)",
        "[a](a.md#x-y-z)",
        "[l](../LICENSE)",
        "[w](https://example.org/none)",
        "# Here\n\n[h](#here)",
        "`[a](none.md)`",
    ] {
        assert_eq!(broken(right), Vec::<String>::new(), "{right}");
    }
    for wrong in
        ["[b](b.md)", "[a](a.md#two)", "[h](#here)", "[x](../../x)", "[a][b]", "![i](i.png)"]
    {
        assert_eq!(broken(wrong).len(), 1, "{wrong}");
    }
    assert_eq!(
        broken("\n[b](b.md)"),
        ["docs/p.md:2: the link to 'b.md' is broken: there is no such file"]
    );
}

fn a_killed_node_is_started_again_on_the_same_page() {
    if let Err(failure) = namespace::run_apart("crates/consort/tests/documents/killed.md") {
        panic!("{failure}");
    }
}

fn without_namespaces_a_page_finds_its_own_programs_alone() {
    let page = "```sh\nPATH=\"$PATH\" consort relay --udp 127.0.0.1:0 --http 127.0.0.1:0 --to 127.0.0.1:9\n```\n\
                ```sh\ntest $(pidof consort | wc -l) = 1\ntest $(pgrep -f 'consort relay' | wc -l) = 1\n\
                ! pgrep -f documents\npkill -9 -f 'relay.*udp'\n```\n```sh exit=1\nwhile pidof consort; do sleep 0.01; done; exit 1\n```\n";
    passes(page);
}
