use super::*;
use tempfile::TempDir;

const SUM: &str = "pub fn sum(x: &[f32]) -> f32 { x.iter().sum() }\n";

/// A small tree with one kernel crate, its list as accepted, and its kernel table at revision 1.
struct Tree {
    folder: TempDir,
    list: List,
    kernels: Kernels,
}

fn kernel(revision: u32) -> Kernel {
    Kernel {
        revisions: [revision].into(),
        parameters: ["parallel.grain_elements in elements".to_owned()].into(),
    }
}

impl Tree {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let list = toml::from_str(
            r#"
            roots = ["src"]
            [outside]
            "src/lib.rs" = "It declares the modules."
            [sources]
            sum = ["src/sum.rs"]
            shared = ["src/shared"]
            [body.sum]
            kernels = ["Sum/vector", "Mean/vector"]
            sources = ["sum", "shared"]
            [body.copy]
            kernels = ["Copy/rows"]
            sources = ["shared"]
            "#,
        )
        .unwrap();
        let names = ["Sum/vector", "Mean/vector", "Copy/rows"];
        let kernels = names.map(|name| (name.to_owned(), kernel(1))).into();
        let mut tree = Tree {
            folder,
            list,
            kernels,
        };
        tree.write("src/lib.rs", "mod sum; mod shared;");
        tree.write("src/sum.rs", SUM);
        tree.write("src/shared/mod.rs", "pub const LANES: usize = 64;");
        tree.accept();
        tree
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn check(&self) -> Report {
        check(self.folder.path(), &self.list, &self.kernels).unwrap()
    }

    fn accept(&mut self) {
        let report = self.check();
        assert_eq!(report.problems, [""; 0]);
        self.list = report.accepted;
    }

    fn is_clean(&self) -> bool {
        let report = self.check();
        report.problems.is_empty() && report.accepted == self.list
    }

    /// The one problem that is found.
    fn problem(&self) -> String {
        let mut problems = self.check().problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.remove(0)
    }

    fn set_revision(&mut self, name: &str, revision: u32) {
        let kernel = self.kernels.get_mut(name).unwrap();
        kernel.revisions = [revision].into();
    }
}

#[test]
fn an_accepted_tree_is_clean_and_its_list_reads_back() {
    let tree = Tree::new();
    assert!(tree.is_clean());
    let text = render(&tree.list);
    assert_eq!(toml::from_str::<List>(&text).unwrap(), tree.list);
    assert_eq!(render(&toml::from_str::<List>(&text).unwrap()), text);
}

#[test]
fn comments_format_and_tests_need_no_revision() {
    let tree = Tree::new();
    let texts = [
        ("comment", format!("//! Sums.\n/// Sum.\n{SUM}// End.")),
        ("format", SUM.replace("{ ", "{\n\n    ")),
        (
            "test module",
            format!("{SUM}#[cfg(test)]\nmod tests {{ fn a() {{}} }}"),
        ),
    ];
    for (name, text) in texts {
        tree.write("src/sum.rs", &text);
        assert!(tree.is_clean(), "{name}");
    }
    tree.write(
        "src/sum.rs",
        &format!("{SUM}#[cfg(test)]\nmod tests;\n#[cfg(test)] mod data;"),
    );
    tree.write("src/sum/tests.rs", "fn any() {}");
    tree.write("src/sum/data/mod.rs", "fn any() {}");
    assert!(tree.is_clean(), "test files");
}

#[test]
fn a_changed_body_fails_until_its_revision_is_bumped_and_accepted() {
    let mut tree = Tree::new();
    tree.write("src/sum.rs", &SUM.replace("sum()", "rev().sum()"));
    let problem = tree.problem();
    for part in ["'sum'", "Sum/vector Mean/vector", "src/sum.rs", "--accept"] {
        assert!(problem.contains(part), "{problem}");
    }
    assert!(!problem.contains("src/shared"), "{problem}");
    tree.set_revision("Sum/vector", 2);
    assert!(
        tree.problem().contains("{1, 2}"),
        "one of two kernels is bumped"
    );
    tree.set_revision("Mean/vector", 2);
    let report = tree.check();
    assert_eq!(report.problems, [""; 0]);
    assert_eq!(report.changes, ["body 'sum': revision 2"]);
    assert_ne!(report.accepted, tree.list, "it must be accepted first");
    tree.accept();
    assert!(tree.is_clean());
    tree.set_revision("Sum/vector", 1);
    tree.set_revision("Mean/vector", 1);
    assert!(tree.problem().contains("never goes back"));
}

#[test]
fn shared_sources_count_for_every_body_that_uses_them() {
    let mut tree = Tree::new();
    tree.write("src/shared/mod.rs", "pub const LANES: usize = 32;");
    assert_eq!(tree.check().problems.len(), 2);
    tree.set_revision("Copy/rows", 2);
    assert!(tree.problem().contains("'sum'"));
    for name in ["Sum/vector", "Mean/vector"] {
        tree.set_revision(name, 2);
    }
    tree.accept();
    assert!(tree.is_clean());
}

#[test]
fn a_changed_unit_or_name_of_a_parameter_is_a_changed_meaning() {
    let mut tree = Tree::new();
    let kernel = tree.kernels.get_mut("Copy/rows").unwrap();
    kernel.parameters = ["parallel.grain_elements in bytes".to_owned()].into();
    let problem = tree.problem();
    assert!(problem.contains("its parameters"), "{problem}");
    tree.set_revision("Copy/rows", 2);
    tree.accept();
    assert!(tree.is_clean());
}

#[test]
fn nothing_escapes() {
    let tree = Tree::new();
    tree.write("src/new.rs", "pub fn new() {}");
    assert!(tree.problem().contains("src/new.rs is part of no body"));
    let mut tree = Tree::new();
    tree.kernels.insert("Max/vector".to_owned(), kernel(1));
    assert!(tree.problem().contains("Max/vector belongs to no body"));
    let mut tree = Tree::new();
    tree.kernels.remove("Mean/vector");
    assert!(tree.problem().contains("does not have"));
    let mut tree = Tree::new();
    let sum = tree.list.body.get_mut("sum").unwrap();
    sum.sources = vec!["shared".to_owned()];
    let problems = tree.check().problems.join("\n");
    for part in [
        "no body uses the sources 'sum'",
        "src/sum.rs is part of no body",
        "the list of its sources",
    ] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
    let tree = Tree::new();
    fs::remove_file(tree.folder.path().join("src/shared/mod.rs")).unwrap();
    assert!(
        tree.check()
            .problems
            .iter()
            .any(|p| p.contains("where no source file is"))
    );
}

#[test]
fn a_file_that_moves_within_its_body_changes_nothing_of_it() {
    let mut tree = Tree::new();
    fs::rename(
        tree.folder.path().join("src/shared/mod.rs"),
        tree.folder.path().join("src/shared/lanes.rs"),
    )
    .unwrap();
    assert_eq!(tree.check().problems, [""; 0]);
    tree.accept();
    assert!(tree.is_clean());
}

#[test]
fn kernels_are_read_from_the_inventory() {
    let json = r#"{"errors": [], "inventory": {"paths": [
        {"domain": "ai.onnx", "op_type": "Abs", "element_type": "f32",
         "implementations": [{"name": "vector", "revision": 3, "first_opset": 6}],
         "parameters": [{"name": "parallel.grain_elements", "unit": "elements"}, {"name": "algorithm.path", "unit": ""}]},
        {"domain": "my", "op_type": "Abs", "element_type": "f32",
         "implementations": [{"name": "rows", "revision": 1}], "parameters": []}]}}"#;
    let kernels = kernels(json).unwrap();
    let names: Vec<&str> = kernels.keys().map(String::as_str).collect();
    assert_eq!(names, ["Abs/vector", "my:Abs/rows"]);
    assert_eq!(kernels["Abs/vector"].revisions, [3].into());
    let parameters: Vec<&str> = kernels["Abs/vector"]
        .parameters
        .iter()
        .map(String::as_str)
        .collect();
    assert_eq!(
        parameters,
        ["algorithm.path", "parallel.grain_elements in elements"]
    );
}
