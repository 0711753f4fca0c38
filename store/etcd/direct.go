package etcd

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kloop-dev/kloop/store"
)

// transact writes if the key has the expected revision. It calls the member as etcd's client in this process does, but
// without the copies that the client makes: two of the value, and of every part of the request.
func (m *member) transact(ctx context.Context, w store.Write, lease clientv3.LeaseID) (*clientv3.TxnResponse, error) {
	key := []byte(w.Key)
	resp, err := m.kv.Txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Key: key, Target: pb.Compare_MOD, Result: pb.Compare_EQUAL,
			TargetUnion: &pb.Compare_ModRevision{ModRevision: w.Expect},
		}},
		Success: []*pb.RequestOp{change(key, w.Value, lease)},
		Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}},
	})
	return (*clientv3.TxnResponse)(resp), clientv3.ContextError(ctx, err)
}

// change puts the value, or deletes the key when there is none.
func change(key, value []byte, lease clientv3.LeaseID) *pb.RequestOp {
	if value == nil {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: key}}}
	}
	put := &pb.PutRequest{Key: key, Value: value, Lease: int64(lease)}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}}
}
