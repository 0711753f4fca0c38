package kinds

// AddressCondition stands in the status of a Service of type LoadBalancer whose addresses kloop gives. True: it has them.
const AddressCondition = "kloop.dev/LoadBalancerAddress"

// AnnouncedCondition stands beside it where the address is one of a pool. True: there are nodes that may answer for it.
const AnnouncedCondition = "kloop.dev/LoadBalancerAnnounced"

// The reasons of the two conditions.
const (
	LBNodeAddresses   = "NodeAddresses"        // has the addresses of nodes
	LBPoolAddress     = "PoolAddress"          // has addresses of a pool
	LBNoNode          = "NoNode"               // no node qualifies
	LBPortsTaken      = "PortsTaken"           // the ports are taken on all nodes that would qualify
	LBNoLocalEndpoint = "NoLocalEndpoint"      // externalTrafficPolicy Local, and no node that qualifies has an endpoint
	LBNoEndpoint      = "NoEndpoint"           // nothing serves, so that no node answers
	LBNoPool          = "NoPool"               // no pool is for this service
	LBPoolExhausted   = "PoolExhausted"        // the pools for it have no free address
	LBRequestRefused  = "RequestRefused"       // it asks for an address or pool that it can't have
	LBNoAdvertisement = "NoAdvertisement"      // no L2Advertisement selects pool and service
	LBSharedSelector  = "SharedWithSelector"   // advertisements that select services never announce shared addresses
	LBBGPOnly         = "OnlyBGPAdvertisement" // only a BGPAdvertisement selects it, and there is no BGP speaker
	LBCandidates      = "Candidates"           // nodes may answer
)

// The Leases by which nodes agree on the one that answers ARP and NDP for an address: one for each address, in AnnounceSpace. The
// controller writes their annotations, the nodes their holder.
const (
	AnnounceSpace       = "metallb-system"
	AnnounceLabel       = "kloop.dev/announce"   // "layer2"
	AnnouncedAddress    = "kloop.dev/address"    // the IP address
	AnnouncedCandidates = "kloop.dev/candidates" // JSON: list of Candidate, in the order of preference; none: nobody may answer
	AnnouncedServices   = "kloop.dev/services"   // NAMESPACE/NAME, separated by commas
	AnnouncedTrouble    = "kloop.dev/trouble"    // what keeps the holder from answering; absent: nothing
)

// A Candidate is a node that may answer for an address.
type Candidate struct {
	Node       string   `json:"node"`
	Address    string   `json:"address"`              // of the node, for heartbeats
	Interfaces []string `json:"interfaces,omitempty"` // none: all that qualify
}
