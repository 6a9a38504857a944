//! Lanes over gRPC.

use landfall_core::{ChainId, LaneId};
use tonic::{Request, Response, Status};

use super::proto::lanes_server::Lanes;
use super::proto::{GetLaneRequest, Lane, ListLanesRequest, ListLanesResponse};
use super::transactions::caller;
use super::{measured, write};
use crate::body::address;
use crate::routes::lanes;
use crate::serve::App;

pub(super) struct Service(pub(super) App);

#[tonic::async_trait]
impl Lanes for Service {
    async fn list(&self, request: Request<ListLanesRequest>) -> Result<Response<ListLanesResponse>, Status> {
        let lanes = lanes::all(&self.0, &caller(&request)).await?;
        Ok(measured(ListLanesResponse { lanes: lanes.iter().map(write::lane).collect() }))
    }

    async fn get(&self, request: Request<GetLaneRequest>) -> Result<Response<Lane>, Status> {
        let caller = caller(&request);
        let GetLaneRequest { chain_id, signer } = request.get_ref();
        let lane = LaneId { chain: ChainId(*chain_id), signer: address("signer", signer)? };
        Ok(measured(write::lane(&lanes::one(&self.0, &caller, lane).await?)))
    }
}
