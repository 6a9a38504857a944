//! What a seed chooses: the size of the world, and which faults strike it how often.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::rng::Rng;

/// Declares the faults with their words, so that summaries and switches cannot forget one.
macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        /// Something that goes wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault { $($(#[$doc])* $name),* }

        impl Fault {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }
        }
    };
}

faults! {
    /// A node loses everything it has in memory, at whatever await it is, and starts again later.
    Crash = "crash";
    /// A node stops in good order, and starts again later.
    Leave = "leave";
    /// A node stands still for longer than its lease, then goes on where it was.
    Pause = "pause";
    /// A node cannot reach the store.
    StorePartition = "store-partition";
    /// A node's renewals are lost, and nothing else.
    LeaseCut = "lease-cut";
    /// A node cannot reach any endpoint.
    RpcPartition = "rpc-partition";
    /// A commit is done and its answer lost.
    LostCommitAnswer = "lost-commit-answer";
    /// A commit is not done, and nobody says so.
    LostCommit = "lost-commit";
    /// A commit is done long after its connection broke.
    LateCommit = "late-commit";
    /// The store answers late.
    SlowAnswer = "slow-answer";
    /// A commit fails and says so.
    FailedCommit = "failed-commit";
    /// Bytes never reach the node.
    LostRequest = "lost-request";
    /// Bytes reach the node, and its answer is lost.
    LostReply = "lost-reply";
    /// Bytes reach the node long after the sender gave up.
    LateDelivery = "late-delivery";
    /// Bytes reach the node twice.
    Duplicate = "duplicate";
    /// An endpoint shows an older chain, or a fork that has lost.
    StaleEndpoint = "stale-endpoint";
    /// An endpoint does not answer.
    EndpointDown = "endpoint-down";
    /// A mined transaction's receipt is not shown.
    NullReceipt = "null-receipt";
    /// A pool forgets a transaction.
    Eviction = "eviction";
    /// A node says yes and keeps nothing.
    SilentDrop = "silent-drop";
    /// A pool is full.
    PoolFull = "pool-full";
    /// A node refuses with one of the classes that are no verdict.
    Refusal = "refusal";
    /// A node refuses bytes for good or as too cheap, whether it has them or not.
    Verdict = "verdict";
    /// A node says of bytes that it has that they are too cheap to replace what it has.
    KnownRefused = "known-refused";
    /// The base fee jumps.
    FeeSpike = "fee-spike";
    /// An account is emptied, and filled again later.
    EmptyAccount = "empty-account";
    /// Blocks are replaced, at most as deep as finality.
    Reorg = "reorg";
    /// More blocks are replaced than what callers asked for as finality, though none that the chain calls final.
    DeepReorg = "deep-reorg";
    /// Another program uses the key.
    ForeignUse = "foreign-use";
    /// No blocks for a while.
    Halt = "halt";
    /// A node's clock steps.
    ClockStep = "clock-step";
    /// The database's clock steps.
    DatabaseClock = "database-clock";
    /// A signer does not answer.
    SignerDown = "signer-down";
    /// An estimate fails without a verdict.
    EstimateDown = "estimate-down";
    /// A caller hangs up before the answer and asks again.
    Disconnect = "disconnect";
    /// A caller repeats a request that was answered.
    Repeat = "repeat";
    /// The process is brought back on an older copy of the store.
    RestoredStore = "restored-store";
    /// Somebody kept bytes that an older copy of the store has forgotten, and sends them after it was accepted.
    LateBytes = "late-bytes";
    /// People speak of what an older copy of the store shows, before it is accepted and without a look at the chain.
    EarlyWord = "early-word";
    /// A reorganisation takes back what an older copy of the store has forgotten, before that was compared.
    TakenBack = "taken-back";
    /// An older copy takes the store's place and nobody notices, while bytes are out that it has forgotten; they land while no node runs.
    UnnoticedCopy = "unnoticed-copy";
    /// An endpoint is on a fork of its own, which is longer than the chain.
    LoneFork = "lone-fork";
    /// The window is made smaller when an older copy takes the store's place.
    Narrowed = "narrowed";
    /// The chain takes back more than it called final.
    FinalReplaced = "final-replaced";
    /// The chain is replaced by a new one with the same id.
    ChainRestart = "chain-restart";
}

/// Sets apart the draws of [`Scenario::choose_later`].
const LATER: u64 = 0x6c61_7465_7221;

impl Fault {
    /// It strikes only in special worlds.
    #[must_use]
    pub fn is_special(self) -> bool {
        let special = [Self::UnnoticedCopy, Self::LoneFork, Self::Narrowed, Self::FinalReplaced];
        special.contains(&self) || (self != Self::RestoredStore && AFTER_A_RESTORE.contains(&self))
    }
}

/// Of a thousand worlds, so many have their store put back while bytes are out.
const WISHES: u64 = 90;
/// Faults that strike there, once the store was put back.
const AFTER_A_RESTORE: &[Fault] =
    &[Fault::RestoredStore, Fault::LateBytes, Fault::EarlyWord, Fault::TakenBack];

/// Sets apart the draw of `some_choose_finality`.
const FINALITY: u64 = 0x6669_6e61_6c69_7479;

/// Sets apart the draws of [`Special::choose`].
const SPECIAL: u64 = 0x0073_7065_6369_616c;

/// A world's special feature: at most one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Special {
    Unnoticed,
    Forked,
    Replaced,
}

impl Special {
    /// Out of a thousand. Drawn apart, so that all other worlds are what they were before these were there.
    fn choose(seed: u64) -> Option<Self> {
        let mut rng = Rng::new(seed ^ SPECIAL);
        match rng.range(0, 1_000) {
            0..40 => Some(Self::Unnoticed),
            40..90 => Some(Self::Forked),
            90..130 => Some(Self::Replaced),
            _ => None,
        }
    }
}

/// The size and the weather of one run.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub seed: u64,
    pub nodes: usize,
    pub chains: usize,
    pub endpoints: usize,
    pub signers: usize,
    pub callers: usize,
    pub requests_per_caller: usize,
    pub max_in_flight: u64,
    pub finality: u64,
    pub block_ms: u64,
    pub resubmit: Duration,
    /// How long faults strike.
    pub trouble: Duration,
    pub remote_signers: bool,
    /// A transaction whose slot was taken fails, instead of being queued again.
    pub fail_displaced: bool,
    /// How long the history of what has ended is kept; for ever where it is none.
    pub keep: Option<Duration>,
    /// How many blocks deeper than finality the chain may take back.
    pub deep: u64,
    /// The chain says itself what it will not take back.
    pub tagged: bool,
    /// The first two nodes have the same name.
    pub twins: bool,
    /// What the fees of a lane may come to in a day, in wei. Block time leaps by days once the faults have stopped.
    pub budget: Option<u64>,
    /// What the chain charges for the bytes of any transaction on top of gas, in wei: it is a rollup.
    pub data_fee: u64,
    /// The first signer's lanes hand out slots at admission.
    pub slots_at_admission: bool,
    /// Some callers want to fail at once where the account cannot pay.
    pub some_fail_dry: bool,
    /// Some callers choose when their transaction is done.
    pub some_choose_finality: bool,
    /// Little goes wrong, so that rules about time can be strict.
    pub quiet: bool,
    /// The chain stands still for half an hour when it does.
    pub long_halt: bool,
    /// An operator asks a lane that holds for more fills than one reading of commands shows, before resuming it.
    pub flooded: bool,
    /// The store is put back while bytes are out, and everybody looks at what comes of it ([`crate::put_back`]).
    pub wishes: bool,
    /// The store is put back and nobody notices ([`crate::unnoticed`]).
    pub unnoticed: bool,
    /// Endpoints may be on forks of their own: what each shows is asked for.
    pub forked: bool,
    /// The chain takes back more than it called final, and people have to say that it is still the same ([`crate::replaced`]).
    pub replaced: bool,
    /// The window is smaller once the store was put back.
    pub narrowed: bool,
    /// How often each fault strikes, out of a thousand where it is by call; by weight where it is by time.
    pub rates: BTreeMap<Fault, u64>,
}

impl Scenario {
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let nodes = if rng.chance(550) { rng.range(3, 6) } else { rng.range(1, 3) };
        let callers = rng.range(3, 7);
        let mut rates = BTreeMap::new();
        let drawn_later = [Fault::KnownRefused, Fault::DatabaseClock];
        let is_later = |fault: &Fault| fault.is_special() || drawn_later.contains(fault);
        for fault in Fault::ALL.iter().filter(|fault| !is_later(fault)) {
            let on = match fault {
                // These end what else could be seen in a run, so they are rarer.
                Fault::RestoredStore | Fault::ChainRestart => rng.chance(80),
                _ => rng.chance(500),
            };
            let strength = rng.range(10, 150);
            if on {
                rates.insert(*fault, strength);
            }
        }
        let mut scenario = Self {
            seed,
            nodes: usize::try_from(nodes).unwrap_or(1),
            chains: if rng.chance(250) { 2 } else { 1 },
            endpoints: usize::try_from(rng.range(1, 4)).unwrap_or(1),
            signers: usize::try_from(rng.range(2, 5)).unwrap_or(2),
            callers: usize::try_from(callers).unwrap_or(3),
            requests_per_caller: usize::try_from(rng.range(120, 200) / callers + 1).unwrap_or(30),
            max_in_flight: rng.range(2, 24),
            finality: rng.range(1, 5),
            block_ms: rng.range(200, 3_000),
            resubmit: Duration::from_millis(rng.range(2_000, 20_000)),
            trouble: Duration::from_secs(rng.range(30, 180)),
            remote_signers: rng.chance(300),
            fail_displaced: rng.chance(250),
            keep: None,
            deep: rng.range(2, 12),
            tagged: rng.chance(700),
            twins: rng.chance(200),
            budget: None,
            data_fee: 0,
            slots_at_admission: false,
            some_fail_dry: false,
            some_choose_finality: Rng::new(seed ^ FINALITY).chance(200),
            quiet: false,
            long_halt: false,
            flooded: false,
            wishes: false,
            unnoticed: false,
            forked: false,
            replaced: false,
            narrowed: false,
            rates,
        };
        let keep = rng.chance(350).then(|| Duration::from_secs(rng.range(5, 60)));
        // A store that is brought back, and a chain that starts over, are judged by the history.
        let judged = [Fault::RestoredStore, Fault::ChainRestart];
        scenario.keep = keep.filter(|_| judged.iter().all(|fault| scenario.rate(*fault) == 0));
        // Block time leaps for whole days there, and history goes by it.
        if scenario.keep.is_none() && rng.chance(250) {
            // Enough for the dearest that a caller may ask for: what no day can pay waits for ever, and says so.
            scenario.budget = Some(rng.range(13, 30) * 1_000_000_000_000_000);
        }
        let hushed = rng.chance(40);
        scenario.slots_at_admission = rng.chance(250);
        let contested = rng.chance(40);
        scenario.flooded = rng.chance(150);
        let mut later = Rng::new(seed ^ LATER);
        let sleeps = scenario.choose_later(&mut later);
        let wishes = later.chance(WISHES);
        // Drawn last, so that the seeds from before it was there are what they were.
        if rng.chance(500) {
            scenario.rates.insert(Fault::DatabaseClock, rng.range(10, 150));
        }
        match (hushed, contested) {
            (true, _) => scenario.hushed(),
            (false, true) => scenario.fought_over(),
            (false, false) if sleeps => scenario.sleeping(),
            (false, false) if wishes => scenario.wishing(&mut later),
            (false, false) => match Special::choose(seed) {
                Some(Special::Unnoticed) => scenario.forgetting(),
                Some(Special::Forked) => scenario.forking(),
                Some(Special::Replaced) => scenario.replacing(),
                None => scenario,
            },
        }
    }

    /// What seeds did not choose at first is drawn apart, so that each is the world it was before in all else.
    /// True: its lanes often have nothing to do.
    fn choose_later(&mut self, rng: &mut Rng) -> bool {
        if rng.chance(500) {
            self.rates.insert(Fault::KnownRefused, rng.range(10, 150));
        }
        if rng.chance(250) {
            // Far more than gas in ordinary times, and little enough that any budget pays the dearest.
            self.data_fee = rng.range(1, 10) * 100_000_000_000_000;
        }
        self.some_fail_dry = rng.chance(300);
        rng.chance(30)
    }

    /// A world in which pools forget, accounts run dry and nodes call known bytes too cheap, and nothing else goes wrong.
    #[must_use]
    pub fn quiet(seed: u64) -> Self {
        Self::from_seed(seed).hushed()
    }

    fn hushed(self) -> Self {
        let rates = [(Fault::Eviction, 100), (Fault::EmptyAccount, 100), (Fault::KnownRefused, 700)].into();
        // Longer than pools forget for, so that only looks at them find it out; or often while an account is dry.
        let resubmit = Duration::from_secs(if self.seed.is_multiple_of(2) { 90 } else { 3 });
        let trouble = self.trouble.max(Duration::from_secs(120));
        Self { rates, resubmit, trouble, quiet: true, budget: None, ..self.without_specials() }
    }

    /// A world in which strangers use the keys and forks lose, again and again, and nothing else goes wrong.
    #[must_use]
    pub fn contested(seed: u64) -> Self {
        Self::from_seed(seed).fought_over()
    }

    /// Forks lose that had lasted for long enough to be believed by one who does not wait for finality.
    fn fought_over(self) -> Self {
        let rates = [(Fault::ForeignUse, 100), (Fault::Reorg, 100)].into();
        let trouble = self.trouble.max(Duration::from_secs(120));
        Self {
            rates,
            trouble,
            finality: 4,
            block_ms: self.block_ms.max(1_000),
            quiet: false,
            budget: None,
            ..self.without_specials()
        }
    }

    /// A seed's choices that go with faults of its own.
    fn without_specials(self) -> Self {
        Self { unnoticed: false, forked: false, replaced: false, ..self }
    }

    /// The same world, with these faults in it whatever the seed chose.
    #[must_use]
    pub fn with(mut self, faults: &[Fault]) -> Self {
        for fault in faults {
            let rate = self.rates.entry(*fault).or_default();
            *rate = (*rate).max(60);
        }
        self
    }

    /// A world in which nothing goes wrong but that the chain stands still for half an hour.
    #[must_use]
    pub fn halted(seed: u64) -> Self {
        let rates = [(Fault::Halt, 100)].into();
        let trouble = Duration::from_secs(40 * 60);
        let scenario = Self::from_seed(seed);
        let nodes = scenario.nodes.min(2);
        Self { nodes, rates, long_halt: true, trouble, quiet: false, budget: None, ..scenario }
    }

    /// A contested world whose chain calls nothing final and takes back more than callers wait for: a stranger's slot may
    /// come back after it was final for the lane.
    #[must_use]
    pub fn untagged(seed: u64) -> Self {
        let contested = Self::contested(seed);
        let mut rates = contested.rates.clone();
        rates.insert(Fault::DeepReorg, 100);
        Self { rates, tagged: false, fail_displaced: false, finality: 1, ..contested }
    }

    /// Nothing keeps a node from seeing what its chain shows.
    #[must_use]
    pub fn is_plain_to_all(&self) -> bool {
        let plain =
            [Fault::Eviction, Fault::EmptyAccount, Fault::KnownRefused, Fault::ForeignUse, Fault::Reorg];
        self.rates.keys().all(|fault| plain.contains(fault))
    }

    /// A world in which lanes often have nothing to do, while accounts run dry and strangers use their keys.
    #[must_use]
    pub fn sleepy(seed: u64) -> Self {
        Self::from_seed(seed).sleeping()
    }

    fn sleeping(self) -> Self {
        let rates = [(Fault::EmptyAccount, 100), (Fault::ForeignUse, 100)].into();
        let (trouble, requests_per_caller) = (Duration::from_secs(180), 10);
        Self {
            rates,
            trouble,
            requests_per_caller,
            chains: 1,
            some_fail_dry: true,
            quiet: false,
            budget: None,
            ..self.without_specials()
        }
    }

    /// A world in which little goes wrong, until an older copy of the store is put back while bytes are out.
    #[must_use]
    pub fn put_back(seed: u64) -> Self {
        let scenario = Self::from_seed(seed).wishing(&mut Rng::new(seed));
        let rates = AFTER_A_RESTORE.iter().map(|fault| (*fault, 100)).collect();
        let (trouble, requests_per_caller) = (Duration::from_secs(30), 6);
        Self { rates, trouble, requests_per_caller, quiet: false, ..scenario }
    }

    fn wishing(mut self, rng: &mut Rng) -> Self {
        self.rates.insert(Fault::RestoredStore, 100);
        for fault in AFTER_A_RESTORE.iter().filter(|_| rng.chance(850)) {
            self.rates.insert(*fault, 100);
        }
        let narrowed = Rng::new(self.seed ^ SPECIAL).chance(500);
        if narrowed {
            self.rates.insert(Fault::Narrowed, 100);
        }
        // What became of everything is judged by the history.
        let (unnoticed, forked, replaced) = (false, false, false);
        Self { wishes: true, unnoticed, forked, replaced, keep: None, narrowed, ..self }
    }

    /// A world in which little goes wrong, until an older copy takes the store's place and nobody notices.
    #[must_use]
    pub fn unnoticed(seed: u64) -> Self {
        let (trouble, requests_per_caller) = (Duration::from_secs(30), 6);
        let scenario = Self::from_seed(seed);
        let rates = BTreeMap::new();
        Self {
            rates,
            trouble,
            requests_per_caller,
            quiet: false,
            long_halt: false,
            wishes: false,
            ..scenario
        }
        .forgetting()
    }

    fn forgetting(mut self) -> Self {
        self.rates.remove(&Fault::ChainRestart);
        self.rates.insert(Fault::UnnoticedCopy, 100);
        // What became of everything is judged by the history.
        Self { unnoticed: true, forked: false, replaced: false, keep: None, ..self }
    }

    /// A world in which endpoints go their own way, and little else goes wrong.
    #[must_use]
    pub fn forked(seed: u64) -> Self {
        Self::from_seed(seed).forking()
    }

    fn forking(self) -> Self {
        let rates =
            [(Fault::LoneFork, 100), (Fault::Crash, 100), (Fault::LostReply, 50), (Fault::Eviction, 50)]
                .into();
        let trouble = self.trouble.max(Duration::from_secs(120));
        Self {
            rates,
            trouble,
            endpoints: self.endpoints.max(2),
            block_ms: self.block_ms.max(1_000),
            quiet: false,
            budget: None,
            wishes: false,
            unnoticed: false,
            replaced: false,
            forked: true,
            ..self
        }
    }

    /// A world in which little goes wrong, until the chain takes back what it had called final.
    #[must_use]
    pub fn replaced(seed: u64) -> Self {
        let (trouble, requests_per_caller) = (Duration::from_secs(30), 6);
        let scenario = Self::from_seed(seed);
        Self { rates: BTreeMap::new(), trouble, requests_per_caller, ..scenario }.replacing()
    }

    /// Finality is so little there that a slot is history before the chain is known by its block.
    fn replacing(mut self) -> Self {
        self.rates.remove(&Fault::ChainRestart);
        self.rates.remove(&Fault::RestoredStore);
        self.rates.insert(Fault::FinalReplaced, 100);
        Self {
            replaced: true,
            chains: 1,
            finality: self.finality.min(3),
            deep: 2,
            tagged: false,
            block_ms: self.block_ms.max(1_000),
            wishes: false,
            unnoticed: false,
            forked: false,
            quiet: false,
            budget: None,
            keep: None,
            ..self
        }
    }

    /// How often this fault strikes; 0 where the seed left it out.
    #[must_use]
    pub fn rate(&self, fault: Fault) -> u64 {
        self.rates.get(&fault).copied().unwrap_or(0)
    }

    /// One line that says what this run is.
    #[must_use]
    pub fn sentence(&self) -> String {
        let faults: Vec<String> =
            self.rates.iter().map(|(fault, rate)| format!("{}={rate}", fault.word())).collect();
        format!(
            "seed {}: {} nodes, {} chains with {} endpoints, {} signers ({}), {} callers × {} requests, window {}, \
             finality {}, a block every {} ms, resubmit after {:?}, history kept {}, {:?} of trouble: {}",
            self.seed,
            self.nodes,
            self.chains,
            self.endpoints,
            self.signers,
            if self.remote_signers { "remote" } else { "local" },
            self.callers,
            self.requests_per_caller,
            self.max_in_flight,
            self.finality,
            self.block_ms,
            self.resubmit,
            self.keep.map_or_else(|| "for ever".to_owned(), |keep| format!("{keep:?}")),
            self.trouble,
            faults.join(" ")
        )
    }
}
