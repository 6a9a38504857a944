//! Faults on demand: what goes wrong, how often, for which methods, and how often it did.
//!
//! Rules are judged once per call, before it is processed, from one seeded generator. Methods under `devchain_` are
//! never touched, so that the faults can always be switched off.

use serde::{Deserialize, Serialize};

use crate::rng::Rng;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    /// The call is processed, then the connection closes without an answer.
    LoseReply,
    /// The connection closes and nothing was processed.
    LoseRequest,
    /// The call waits before it is processed.
    Delay { ms: u64 },
    /// Heads, counts and receipts are answered as of some blocks ago.
    Lag { blocks: u64 },
    /// Receipts of mined transactions are answered as null.
    NullReceipts,
    /// The transaction is admitted, then evicted at once; the answer is a success.
    EvictAfterAdmit,
    /// The answer is a success, but the transaction is never looked at.
    SilentDrop,
    /// The call is not processed; the answer is this JSON-RPC error.
    Refuse { code: i64, message: String },
    /// The answer is this HTTP status with a body that is not JSON. Over WebSocket the connection closes instead.
    HttpStatus {
        status: u16,
        body: String,
        /// True if the call is processed all the same, as behind a gateway that gave up waiting.
        #[serde(default)]
        processed: bool,
    },
}

/// A fault with its limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    #[serde(flatten)]
    pub fault: Fault,
    /// From 0 (never) to 1 (always, the default).
    #[serde(default = "always")]
    pub probability: f64,
    /// Methods it is limited to; empty means all to which the fault can apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// How many more times it may fire; none means without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
}

fn always() -> f64 {
    1.0
}

impl Rule {
    pub fn always(fault: Fault) -> Self {
        Self { fault, probability: 1.0, methods: Vec::new(), times: None }
    }

    pub fn sometimes(fault: Fault, probability: f64) -> Self {
        Self { probability, ..Self::always(fault) }
    }

    /// Limits the rule to a method; call again for more.
    #[must_use]
    pub fn on(mut self, method: &str) -> Self {
        self.methods.push(method.to_owned());
        self
    }

    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    fn applies(&self, method: &str) -> bool {
        let named = self.methods.is_empty() || self.methods.iter().any(|m| m == method);
        let sends = method == "eth_sendRawTransaction";
        named
            && self.times != Some(0)
            && match self.fault {
                Fault::EvictAfterAdmit | Fault::SilentDrop => sends,
                Fault::NullReceipts => method.ends_with("Receipt") || method.ends_with("Receipts"),
                Fault::Lag { .. } => !sends,
                Fault::LoseReply
                | Fault::LoseRequest
                | Fault::Delay { .. }
                | Fault::Refuse { .. }
                | Fault::HttpStatus { .. } => true,
            }
    }
}

/// Names a rule that was added, so that it can be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RuleId(pub u64);

/// How often each fault took effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FaultCounts {
    pub lose_reply: u64,
    pub lose_request: u64,
    pub delay: u64,
    pub lag: u64,
    pub null_receipts: u64,
    pub evict_after_admit: u64,
    pub silent_drop: u64,
    pub refuse: u64,
    pub http_status: u64,
}

impl FaultCounts {
    pub fn total(&self) -> u64 {
        self.lose_reply
            + self.lose_request
            + self.delay
            + self.lag
            + self.null_receipts
            + self.evict_after_admit
            + self.silent_drop
            + self.refuse
            + self.http_status
    }
}

/// An HTTP answer that is none of the chain's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) body: String,
    pub(crate) processed: bool,
}

/// What the rules decided for one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) lose_reply: bool,
    pub(crate) lose_request: bool,
    pub(crate) delay_ms: u64,
    pub(crate) lag: u64,
    pub(crate) null_receipts: bool,
    pub(crate) evict: bool,
    pub(crate) silent_drop: bool,
    pub(crate) refuse: Option<(i64, String)>,
    pub(crate) http: Option<HttpAnswer>,
}

#[derive(Debug)]
pub(crate) struct Faults {
    rules: Vec<(RuleId, Rule)>,
    counts: FaultCounts,
    rng: Rng,
    next_id: u64,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rules: Vec::new(), counts: FaultCounts::default(), rng: Rng::new(seed), next_id: 0 }
    }

    pub(crate) fn add(&mut self, rule: Rule) -> RuleId {
        let id = RuleId(self.next_id);
        self.next_id += 1;
        self.rules.push((id, rule));
        id
    }

    pub(crate) fn remove(&mut self, id: RuleId) -> bool {
        let before = self.rules.len();
        self.rules.retain(|(other, _)| *other != id);
        self.rules.len() != before
    }

    /// Takes all rules away; the counts stay.
    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(crate) fn rules(&self) -> Vec<(RuleId, Rule)> {
        self.rules.clone()
    }

    pub(crate) fn counts(&self) -> FaultCounts {
        self.counts
    }

    pub(crate) fn count_null_receipts(&mut self) {
        self.counts.null_receipts += 1;
    }

    /// Judges every rule for one call.
    pub(crate) fn plan(&mut self, method: &str) -> Plan {
        let mut plan = Plan::default();
        if self.rules.is_empty() || method.starts_with("devchain_") {
            return plan;
        }
        for (_, rule) in &mut self.rules {
            if !rule.applies(method) || !self.rng.chance(rule.probability) {
                continue;
            }
            if let Some(times) = &mut rule.times {
                *times -= 1;
            }
            plan.take(&rule.fault, &mut self.counts);
        }
        plan
    }
}

impl Plan {
    fn take(&mut self, fault: &Fault, counts: &mut FaultCounts) {
        match fault {
            Fault::LoseReply => {
                self.lose_reply = true;
                counts.lose_reply += 1;
            }
            Fault::LoseRequest => {
                self.lose_request = true;
                counts.lose_request += 1;
            }
            Fault::Delay { ms } => {
                self.delay_ms += ms;
                counts.delay += 1;
            }
            Fault::Lag { blocks } => {
                self.lag = self.lag.max(*blocks);
                counts.lag += 1;
            }
            // Counted where a receipt is really withheld: most questions for receipts are answered null anyway.
            Fault::NullReceipts => self.null_receipts = true,
            Fault::EvictAfterAdmit => {
                self.evict = true;
                counts.evict_after_admit += 1;
            }
            Fault::SilentDrop => {
                self.silent_drop = true;
                counts.silent_drop += 1;
            }
            Fault::Refuse { code, message } => {
                self.refuse = Some((*code, message.clone()));
                counts.refuse += 1;
            }
            Fault::HttpStatus { status, body, processed } => {
                self.http = Some(HttpAnswer { status: *status, body: body.clone(), processed: *processed });
                counts.http_status += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_reads_as_one_flat_object() {
        let json = r#"{"fault":"delay","ms":20,"probability":0.5,"methods":["eth_call"],"times":3}"#;
        let rule: Rule = serde_json::from_str(json).unwrap();
        let expected = Rule::sometimes(Fault::Delay { ms: 20 }, 0.5).on("eth_call").times(3);
        assert_eq!(rule, expected);
        assert_eq!(serde_json::from_str::<Rule>(&serde_json::to_string(&rule).unwrap()).unwrap(), rule);
    }

    #[test]
    fn a_limited_rule_fires_so_often_and_only_for_its_methods() {
        let mut faults = Faults::new(1);
        faults.add(Rule::always(Fault::LoseReply).on("eth_call").times(2));
        assert!(!faults.plan("eth_chainId").lose_reply);
        let fired = (0..5).filter(|_| faults.plan("eth_call").lose_reply).count();
        assert_eq!((fired, faults.counts().lose_reply), (2, 2));
    }

    #[test]
    fn control_methods_are_never_touched() {
        let mut faults = Faults::new(1);
        faults.add(Rule::always(Fault::LoseRequest));
        assert_eq!(faults.plan("devchain_clearFaults"), Plan::default());
    }
}
