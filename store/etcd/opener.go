package etcd

import (
	"context"

	"github.com/kloop-dev/kloop/store"
	contract "github.com/kloop-dev/kloop/store/member"
)

// Opener implements member.Opener for package cluster, which does not link etcd.
type Opener struct{}

// Open implements member.Opener.
func (Opener) Open(ctx context.Context, c contract.Config) (contract.Member, error) {
	s, err := Open(ctx, Config{Dir: c.Dir, Peers: (*Peers)(c.Peers), Log: c.Log})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Dial implements member.Opener.
func (Opener) Dial(ctx context.Context, r contract.Remote) (store.Store, error) {
	s, err := Dial(ctx, r)
	if err != nil {
		return nil, err
	}
	return s, nil
}
