package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/raft/v3"

	"github.com/kloop-dev/kloop/store"
)

// What is proposed while the lead of the members changes hands may be lost without a word: etcd says after seven seconds that it does
// not know. So a member writes each key on condition that its fence, a key of its own, has not moved. When the lead has
// changed and a write has no answer it moves the fence: what was not done by then never will be, and can be sent again.

// fencePrefix begins the keys of fences, out of sight of what follows the objects.
const fencePrefix = "/kloop/fence/"

const (
	fenceTry  = time.Second           // how long one move of the fence may take
	lateLimit = 50 * time.Millisecond // for an answer that came with the move
)

// A fence is a member's own. Who moves it holds all other writes up.
type fence struct {
	mu    sync.Mutex
	key   string
	epoch int64 // its newest known revision; 0: not known
}

// An answer tells the outcome of one try of a transaction.
type answer struct {
	resp  *clientv3.TxnResponse
	err   error
	epoch int64
}

// transact does op if the key has the expected revision.
func (s *Store) transact(ctx context.Context, w store.Write, op clientv3.Op) (*clientv3.TxnResponse, error) {
	if s.member == nil || !s.member.peers || len(s.member.server.Cluster().Members()) < 2 {
		return s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(w.Key), "=", w.Expect)).Then(op).
			Else(clientv3.OpGet(w.Key)).Commit()
	}
	ctx, cancel := context.WithCancel(ctx) // tries that can't succeed any more
	defer cancel()
	var earlier []chan answer
	for {
		changed := s.member.server.LeaderChangedNotify()
		epoch, err := s.fenceAt(ctx)
		if err != nil {
			return nil, err
		}
		try := make(chan answer, 1)
		go s.try(ctx, w, op, epoch, try)
		var a answer
		select {
		case a = <-try:
		case <-changed:
			if err := s.moveFence(ctx, epoch); err != nil {
				a = <-try // says what is known
				return a.resp, a.err
			}
			select {
			case a = <-try:
			case <-time.After(lateLimit):
				earlier = append(earlier, try)
				continue
			}
		}
		switch {
		case dropped(a.err):
			if err := breathe(ctx, changed); err != nil {
				return nil, err
			}
		case a.err != nil || a.resp.Succeeded:
			return a.resp, a.err
		case s.fenced(a):
		default:
			return refusedUnless(a, earlier), nil
		}
	}
}

// dropped says that there was nobody to propose it to: it was not done.
func dropped(err error) bool {
	return err != nil && strings.Contains(err.Error(), raft.ErrProposalDropped.Error())
}

// try is one try of a transaction.
func (s *Store) try(ctx context.Context, w store.Write, op clientv3.Op, epoch int64, to chan<- answer) {
	resp, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(w.Key), "=", w.Expect), clientv3.Compare(clientv3.ModRevision(s.fence.key), "=", epoch)).
		Then(op).
		Else(clientv3.OpGet(w.Key), clientv3.OpGet(s.fence.key)).
		Commit()
	to <- answer{resp, err, epoch}
}

// refusedUnless is the answer to a try that found another revision: unless an earlier try, which answers late, made that one.
func refusedUnless(a answer, earlier []chan answer) *clientv3.TxnResponse {
	for _, e := range earlier {
		if b := <-e; b.err == nil && b.resp.Succeeded {
			return b.resp
		}
	}
	return a.resp
}

// breathe waits for a leader, or a little: somebody may lead already.
func breathe(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-time.After(lateLimit):
	}
	return nil
}

// fenced says that a try was refused because the fence had moved, and notes where it is.
func (s *Store) fenced(a answer) bool {
	kvs := a.resp.Responses[1].GetResponseRange().Kvs
	if len(kvs) == 0 || kvs[0].ModRevision == a.epoch {
		return false
	}
	s.fence.mu.Lock()
	defer s.fence.mu.Unlock()
	s.fence.epoch = max(s.fence.epoch, kvs[0].ModRevision)
	return true
}

// fenceAt returns the revision of the fence. The first write of a process moves it: what one before it left on the way is done with, too.
func (s *Store) fenceAt(ctx context.Context) (int64, error) {
	s.fence.mu.Lock()
	defer s.fence.mu.Unlock()
	if s.fence.epoch == 0 {
		s.fence.key = fmt.Sprintf("%s%x", fencePrefix, uint64(s.member.server.MemberID()))
		if err := s.putFence(ctx); err != nil {
			return 0, err
		}
	}
	return s.fence.epoch, nil
}

// moveFence moves the fence from where it was, if nobody else did since.
func (s *Store) moveFence(ctx context.Context, from int64) error {
	s.fence.mu.Lock()
	defer s.fence.mu.Unlock()
	if s.fence.epoch != from {
		return nil
	}
	return s.putFence(ctx)
}

// putFence tries until the fence has moved: this is lost as other writes are. Who calls it holds the lock.
func (s *Store) putFence(ctx context.Context) error {
	for {
		once, cancel := context.WithTimeout(ctx, fenceTry)
		resp, err := s.client.Put(once, s.fence.key, "")
		cancel()
		if err == nil {
			s.fence.epoch = max(s.fence.epoch, resp.Header.Revision)
			return nil
		}
		if ctx.Err() != nil || !dropped(err) && once.Err() == nil {
			return err
		}
		if err := breathe(ctx, nil); err != nil {
			return err
		}
	}
}
