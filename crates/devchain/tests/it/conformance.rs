//! What any node must do alike. Every case runs on devchain and on anvil and says only what both agree on.

mod accounts;
mod blocks;
mod execution;
mod pool;
mod transport;

/// Makes two tests of every case.
macro_rules! on_both {
    ($($case:ident),* $(,)?) => {
        mod devchain {
            $(#[tokio::test]
            async fn $case() {
                super::$case($crate::support::Node::devchain().await).await;
            })*
        }
        mod anvil {
            $(#[tokio::test]
            async fn $case() {
                super::$case($crate::support::Node::anvil().await).await;
            })*
        }
    };
}
use on_both;
