//! What is moved: each table's columns in the database, and where the file has them.
//!
//! The file names accounts and transactions by row numbers; the database has addresses and ids in their place. Row
//! numbers that both have stay the same.

use super::row::Kind;

/// A column of the database, and the expression that gives it in the file.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(super) expression: &'static str,
}

pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [Column],
    /// What follows FROM in the file. It gives every row of the first table it names once.
    pub(super) from: &'static str,
    /// A fixed order of the file's rows.
    pub(super) order: &'static str,
}

const fn column(name: &'static str, kind: Kind, expression: &'static str) -> Column {
    Column { name, kind, expression }
}

/// In the order in which they are copied.
pub(crate) const TABLES: &[Table] = &[
    Table {
        name: "namespace",
        columns: &[
            column("id", Kind::Big, "id"),
            column("name", Kind::Text, "name"),
            column("probes", Kind::Big, "probes"),
        ],
        from: "namespace",
        order: "id",
    },
    Table {
        name: "older",
        columns: &[column("namespace", Kind::Big, "namespace"), column("why", Kind::Text, "why")],
        from: "older",
        order: "namespace",
    },
    Table {
        name: "lane",
        columns: &[
            column("id", Kind::Big, "lane.id"),
            column("namespace", Kind::Big, "account.namespace"),
            column("chain", Kind::Big, "lane.chain"),
            column("signer", Kind::Bytes, "account.address"),
            column("token", Kind::Big, "lane.token"),
            column("version", Kind::Big, "lane.version"),
            column("details", Kind::Text, "lane.details"),
            column("closed", Kind::Big, "lane.closed"),
        ],
        from: "lane LEFT JOIN account ON account.id = lane.account",
        order: "lane.id",
    },
    Table {
        name: "tx",
        columns: &[
            column("ord", Kind::Big, "tx.ord"),
            column("namespace", Kind::Big, "tx.namespace"),
            column("id", Kind::Uuid, "tx.id"),
            column("lane", Kind::Big, "tx.lane"),
            column("signer", Kind::Bytes, "account.address"),
            column("request_id", Kind::Text, "tx.request_id"),
            column("phase", Kind::Small, "tx.phase"),
            column("state", Kind::Small, "tx.state"),
            column("ended", Kind::Small, "CASE WHEN tx.state IN (7, 8, 9, 10) THEN tx.state END"),
            column("slot", Kind::Big, "tx.slot"),
            column("request", Kind::Text, "tx.request"),
            column("status", Kind::Text, "tx.status"),
            column("api_key", Kind::Text, "tx.api_key"),
            column("caller_nonce", Kind::Big, "tx.caller_nonce"),
        ],
        from: "tx LEFT JOIN account ON account.id = tx.account",
        order: "tx.ord",
    },
    Table {
        name: "kept",
        columns: &[
            column("namespace", Kind::Big, "kept.namespace"),
            column("id", Kind::Uuid, "kept.id"),
            column("signer", Kind::Bytes, "account.address"),
            column("request_id", Kind::Text, "kept.request_id"),
            column("details", Kind::Text, "kept.details"),
            column("lane", Kind::Big, "kept.lane"),
            column("api_key", Kind::Text, "kept.api_key"),
            column("caller_nonce", Kind::Big, "kept.caller_nonce"),
            column("first_hash", Kind::Bytes, "kept.first_hash"),
        ],
        from: "kept LEFT JOIN account ON account.id = kept.account",
        order: "kept.id, kept.namespace",
    },
    Table {
        name: "attempt",
        columns: &[
            column("lane", Kind::Big, "attempt.lane"),
            column("slot", Kind::Big, "attempt.slot"),
            column("ordinal", Kind::Big, "attempt.ordinal"),
            column("tx", Kind::Uuid, "tx.id"),
            column("open", Kind::Bool, "attempt.open"),
            column("hash", Kind::Bytes, "attempt.hash"),
            column("raw", Kind::Bytes, "attempt.raw"),
            column("details", Kind::Text, "attempt.details"),
            column("hints", Kind::Text, "attempt.hints"),
            column("apart", Kind::Bool, "attempt.apart"),
        ],
        from: "attempt LEFT JOIN tx ON tx.ord = attempt.tx",
        order: "attempt.lane, attempt.slot, attempt.ordinal",
    },
    Table {
        name: "journal",
        columns: &[
            column("namespace", Kind::Big, "account.namespace"),
            column("seq", Kind::Big, "journal.seq"),
            column("lane", Kind::Big, "journal.lane"),
            column("tx", Kind::Uuid, "tx.id"),
            column("at", Kind::Big, "journal.at"),
            column("entry", Kind::Text, "journal.entry"),
        ],
        from:
            "journal LEFT JOIN lane ON lane.id = journal.lane LEFT JOIN account ON account.id = lane.account
               LEFT JOIN tx ON tx.ord = journal.tx",
        order: "journal.seq",
    },
    Table {
        name: "command",
        columns: &[
            column("seq", Kind::Big, "seq"),
            column("namespace", Kind::Big, "namespace"),
            column("id", Kind::Uuid, "id"),
            column("lane", Kind::Big, "lane"),
            column("at", Kind::Big, "at"),
            column("kind", Kind::Text, "kind"),
            column("done", Kind::Bool, "done"),
            column("tx", Kind::Uuid, "tx"),
        ],
        from: "command",
        order: "seq",
    },
    Table {
        name: "chain",
        columns: &[
            column("namespace", Kind::Big, "namespace"),
            column("chain", Kind::Big, "chain"),
            column("record", Kind::Text, "record"),
        ],
        from: "chain",
        order: "namespace, chain",
    },
    Table {
        name: "record",
        columns: &[
            column("namespace", Kind::Big, "namespace"),
            column("kind", Kind::Small, "kind"),
            column("id", Kind::Text, "id"),
            column("version", Kind::Big, "version"),
            column("body", Kind::Text, "body"),
        ],
        from: "record",
        order: "namespace, kind, id",
    },
    Table {
        name: "audit",
        columns: &[
            column("namespace", Kind::Big, "namespace"),
            column("seq", Kind::Big, "seq"),
            column("at", Kind::Big, "at"),
            column("entry", Kind::Text, "entry"),
            column("hash", Kind::Bytes, "hash"),
        ],
        from: "audit",
        order: "namespace, seq",
    },
    Table {
        name: "audit_ends",
        columns: &[
            column("namespace", Kind::Big, "namespace"),
            column("seq", Kind::Big, "seq"),
            column("hash", Kind::Bytes, "hash"),
            column("anchor", Kind::Big, "anchor"),
            column("anchor_hash", Kind::Bytes, "anchor_hash"),
        ],
        from: "audit_ends",
        order: "namespace",
    },
];

impl Table {
    /// The file's rows from a place on, in their fixed order.
    pub(super) fn select(&self) -> String {
        let expressions: Vec<&str> = self.columns.iter().map(|column| column.expression).collect();
        let (from, order) = (self.from, self.order);
        format!("SELECT {} FROM {from} ORDER BY {order} LIMIT -1 OFFSET ?1", expressions.join(", "))
    }
}
