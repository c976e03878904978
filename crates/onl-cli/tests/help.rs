//! What the command says of itself. That this test exists makes `cargo test --workspace` build the command, which the
//! tests of the workspace run.

use assert_cmd::cargo::cargo_bin_cmd;

#[test]
fn help_lists_the_commands() {
    let output = cargo_bin_cmd!("onl")
        .arg("--help")
        .output()
        .expect("the command starts");
    assert!(output.status.success());
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!("help", String::from_utf8_lossy(&output.stdout)));
}

#[test]
fn without_a_command_usage_is_printed() {
    let output = cargo_bin_cmd!("onl").output().expect("the command starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage"));
}

#[test]
fn help_of_calibration_names_every_option() {
    for (command, snapshot) in [
        ("tune-kernels", "tune_kernels"),
        ("kernel-baseline", "kernel_baseline"),
    ] {
        let output = cargo_bin_cmd!("onl")
            .args([command, "--help"])
            .output()
            .expect("the command starts");
        assert!(output.status.success());
        let mut settings = insta::Settings::clone_current();
        settings.set_prepend_module_to_snapshot(false);
        settings
            .bind(|| insta::assert_snapshot!(snapshot, String::from_utf8_lossy(&output.stdout)));
    }
}
