//! The systemd unit: what systemd itself says of it, and its command under the identity and the permissions that it and
//! `deploy/README.md` make. There need be no running systemd: what it would do (hand files over, change the user, drop
//! rights) is done here, line by line as the unit has it.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use reqwest::Method;
use tempfile::TempDir;
use tokio::process::Child;

use crate::support::{Api, CHAIN_ID, Chain, Output, free_port, is_here, program, run, signal, until};

const UNIT: &str = "deploy/systemd/landfall.service";
/// A user that owns nothing, from the numbers that systemd gives to such.
const USER: u32 = 61_999;
/// `systemd-analyze security` says 11: what is left is that the program talks to the network.
const MOST_EXPOSED: &str = "--threshold=12";

fn root(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The values of a key of the unit.
fn values(unit: &str, key: &str) -> Vec<String> {
    let key = format!("{key}=");
    unit.lines().filter_map(|line| line.strip_prefix(&key)).map(str::to_owned).collect()
}

fn is_root() -> bool {
    let own = std::fs::metadata("/proc/self").expect("this is Linux");
    own.uid() == 0
}

fn permit(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn give(path: &Path) {
    if is_root() {
        chown(path, Some(USER), Some(USER)).unwrap();
    }
}

#[tokio::test]
async fn systemd_finds_no_fault_with_the_unit_and_little_that_it_leaves_open() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("landfall.service");
    // Its program must be there for a unit to be good.
    let unit = read(&root(UNIT)).replace("/usr/local/bin/landfall", env!("CARGO_BIN_EXE_landfall"));
    std::fs::write(&file, unit).unwrap();
    let analyze = |arguments: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        command.args(arguments).arg(&file).env("SYSTEMD_PAGER", "");
        command
    };
    let checks = format!("that {UNIT} passes `systemd-analyze verify` and `systemd-analyze security`");
    if !is_here("systemd-analyze", "systemd", &checks) {
        return;
    }
    let verified = run(analyze(&["verify"])).await;
    assert!(verified.ok() && verified.said.trim().is_empty(), "{}", verified.said);
    let secure = run(analyze(&["security", "--offline=yes", MOST_EXPOSED])).await;
    assert!(secure.ok(), "{}", secure.said);

    // A fault is found, so the above says something.
    let unit = read(&file).replace("DynamicUser=yes", "DynamicUser=perhaps").replace("PrivateUsers=yes", "");
    std::fs::write(&file, unit).unwrap();
    assert!(!run(analyze(&["verify"])).await.said.trim().is_empty());
    assert!(!run(analyze(&["security", "--offline=yes", MOST_EXPOSED])).await.ok());
}

/// A machine as `deploy/README.md` makes it, in a folder.
struct Machine {
    folder: TempDir,
    unit: String,
    /// The program reads secrets from files by their credential's name.
    reads_credentials: bool,
}

impl Machine {
    /// Runs the page's own commands, up to those that need a running systemd.
    async fn as_the_page_says() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Everybody may pass; what is inside has permissions of its own.
        permit(folder.path(), 0o755);
        for inner in ["bin", "units"] {
            std::fs::create_dir(folder.path().join(inner)).unwrap();
        }
        let page = read(&root("deploy/README.md"));
        let block = page.split("# One node as a service\n").nth(1).expect("the page has the commands");
        let commands: Vec<&str> =
            block.lines().take_while(|line| !line.is_empty() && !line.starts_with("systemctl")).collect();
        assert!(commands.len() > 5, "{commands:?}");
        let at = |inner: &str| folder.path().join(inner).display().to_string();
        let script = commands
            .join("\n")
            .replace("target/release/landfall", env!("CARGO_BIN_EXE_landfall"))
            .replace("/usr/local/bin/landfall", &at("bin/landfall"))
            .replace("/etc/landfall", &at("landfall"))
            .replace("/etc/systemd/system/", &at("units/"));
        let mut shell = Command::new("sh");
        let path = format!("{}:{}", at("bin"), std::env::var("PATH").unwrap_or_default());
        shell.args(["-eu", "-c", &script]).current_dir(root("")).env("PATH", path);
        let done = run(shell).await;
        assert!(done.ok(), "{}", done.said);
        let unit = read(&folder.path().join("units/landfall.service"));
        let mut reference = program(folder.path());
        reference.arg("config");
        let reads_credentials = run(reference).await.stdout.contains("admin_key_file");
        let machine = Self { folder, unit, reads_credentials };
        machine.hand_over();
        machine
    }

    fn at(&self, inner: &str) -> PathBuf {
        self.folder.path().join(inner)
    }

    /// The work of systemd before it starts the command: credentials, and the state's folder.
    fn hand_over(&self) {
        let (credentials, state) = (self.at("credentials"), self.at("state"));
        for folder in [&credentials, &state] {
            std::fs::create_dir(folder).unwrap();
        }
        for line in values(&self.unit, "LoadCredential") {
            let (name, file) = line.split_once(':').unwrap();
            let file = self.at(file.strip_prefix("/etc/").expect("root keeps it in /etc"));
            let mut text = read(&file);
            if name == "landfall.toml" {
                text = self.for_this_folder(&text);
            }
            let handed = credentials.join(name);
            std::fs::write(&handed, text).unwrap();
            permit(&handed, 0o400);
            give(&handed);
        }
        permit(&credentials, 0o500);
        let mode = &values(&self.unit, "StateDirectoryMode")[0];
        permit(&state, u32::from_str_radix(mode, 8).unwrap());
        give(&credentials);
        give(&state);
    }

    /// The configuration with the folder of credentials that is used here.
    fn for_this_folder(&self, text: &str) -> String {
        let here = self.at("credentials").display().to_string();
        let text = text.replace("/run/credentials/landfall.service", &here);
        let text = text.replace("/var/lib/landfall", &self.at("state").display().to_string());
        if self.reads_credentials {
            return text;
        }
        // Paths instead of names, and the administrator's key by its variable.
        text.replace("admin_key_file = ", "# ").replace("credential:", &format!("{here}/"))
    }

    /// A command as the unit's user, with the rights that are left to it.
    fn as_the_user(&self, words: &[String]) -> Command {
        let state = self.at("state");
        let mut setpriv = Command::new("setpriv");
        if is_root() {
            let user = USER.to_string();
            setpriv.args(["--reuid", &user, "--regid", &user, "--clear-groups", "--bounding-set=-all"]);
        } else {
            eprintln!(
                "not root: the command runs as this user, and it was NOT checked what another one may read"
            );
        }
        setpriv.args(["--inh-caps=-all", "--no-new-privs", "--"]);
        let mask = &values(&self.unit, "UMask")[0];
        setpriv.args(["sh", "-c", &format!("umask {mask}; exec \"$@\""), "sh"]).args(words);
        // What a test may set for the program is not there for a service.
        for (name, _) in program(&state).get_envs() {
            setpriv.env_remove(name);
        }
        setpriv.current_dir(state).env("CREDENTIALS_DIRECTORY", self.at("credentials"));
        setpriv.stdin(Stdio::null());
        setpriv
    }

    /// The unit's own command.
    fn start(&self, rpc: &str, port: u16) -> Command {
        let start = values(&self.unit, "ExecStart").remove(0);
        let words: Vec<String> = start
            .replace("${CREDENTIALS_DIRECTORY}", &self.at("credentials").display().to_string())
            .replace("/usr/local/bin/landfall", &self.at("bin/landfall").display().to_string())
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        let mut command = self.as_the_user(&words);
        command.env("LANDFALL_SERVER__LISTEN", format!("127.0.0.1:{port}"));
        command.env("LANDFALL_CHAIN__0__ID", CHAIN_ID.to_string()).env("LANDFALL_CHAIN__0__RPC", rpc);
        if !self.reads_credentials {
            command.env("LANDFALL_ADMIN_KEY", read(&self.at("credentials/admin_key")).trim());
        }
        for line in values(&self.unit, "Environment") {
            let (name, value) = line.split_once('=').unwrap();
            command.env(name, value.replace("%H", "a-machine"));
        }
        command
    }

    async fn run_as_the_user(&self, words: &[&str]) -> Output {
        run(self.as_the_user(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())).await
    }
}

async fn until_ready(api: &Api, child: &mut Child) {
    until("the service is ready", async || {
        if let Some(status) = child.try_wait().unwrap() {
            panic!("the service ended at its start: {status}");
        }
        let ready = api.try_send(api.request(Method::GET, "/health/ready")).await?;
        (ready.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_units_command_starts_as_a_user_that_owns_nothing_with_the_files_that_the_page_makes() {
    let machine = Machine::as_the_page_says().await;
    let etc = machine.at("landfall");
    for file in std::fs::read_dir(&etc).unwrap() {
        let mode = file.unwrap().metadata().unwrap().mode();
        assert_eq!(mode & 0o077, 0, "what holds secrets is for its owner alone: {mode:o}");
    }
    if is_root() {
        // The user gets in by what is handed over and by nothing else.
        let secret = etc.join("admin_key").display().to_string();
        assert!(!machine.run_as_the_user(&["cat", &secret]).await.ok());
        let direct = etc.join("landfall.toml").display().to_string();
        let binary = machine.at("bin/landfall").display().to_string();
        let refused = machine.run_as_the_user(&[&binary, "serve", "--config", &direct]).await;
        assert!(!refused.ok() && refused.said.contains("ermission denied"), "{}", refused.said);
    }

    let chain = Chain::without_mining().await;
    let port = free_port();
    let command = machine.start(&chain.url(), port);
    let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
    let api = Api::at(&format!("http://127.0.0.1:{port}"));
    until_ready(&api, &mut child).await;
    let admin_key = read(&machine.at("credentials/admin_key"));
    api.get("/api/v1/tx").await.expect_problem(401, "unauthorized");
    api.with_key(admin_key.trim()).get("/api/v1/api-keys").await.expect(200);

    let pid = child.id().unwrap();
    let status = read(Path::new(&format!("/proc/{pid}/status")));
    let line = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(line("CapEff:").ends_with("0000000000000000") || !is_root(), "{status}");
    assert!(line("NoNewPrivs:").ends_with('1'), "{status}");
    for file in std::fs::read_dir(machine.at("state")).unwrap() {
        let file = file.unwrap();
        let about = file.metadata().unwrap();
        assert_eq!(about.mode() & 0o077, 0, "{:?} is for its owner alone", file.file_name());
        assert!(about.uid() == USER || !is_root(), "{:?}", file.file_name());
    }
    signal("TERM", pid);
    assert!(child.wait().await.unwrap().success(), "an orderly stop");
}
