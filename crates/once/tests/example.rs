//! The example of library mode does what it says.

#[test]
fn the_example_runs_to_its_end() {
    // Cargo builds examples before the tests of their package.
    let built = std::env::current_exe().unwrap();
    let folder = built.parent().and_then(|deps| deps.parent()).unwrap();
    let example = folder.join("examples").join("once");
    let output = std::process::Command::new(example).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        ["300 answers, 1 computation, one generation: true", "purged by tag: 1, left: false"]
    );
}
