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
	client *clientv3.Client
	member *member // nil: there is none in this process

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

// transact writes if the key has the expected revision.
func (f *fence) transact(ctx context.Context, w store.Write, lease clientv3.LeaseID) (*clientv3.TxnResponse, error) {
	switch {
	case f.member == nil:
		return f.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(w.Key), "=", w.Expect)).Then(operation(w, lease)).
			Else(clientv3.OpGet(w.Key)).Commit()
	case !f.member.peers || len(f.member.server.Cluster().Members()) < 2:
		return f.member.transact(ctx, w, lease)
	}
	op := operation(w, lease)
	ctx, cancel := context.WithCancel(ctx) // tries that can't succeed any more
	defer cancel()
	var earlier []chan answer
	for {
		changed := f.member.server.LeaderChangedNotify()
		epoch, err := f.at(ctx)
		if err != nil {
			return nil, err
		}
		try := make(chan answer, 1)
		go f.try(ctx, w, op, epoch, try)
		var a answer
		select {
		case a = <-try:
		case <-changed:
			if err := f.move(ctx, epoch); err != nil {
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
		case f.moved(a):
		default:
			return refusedUnless(a, earlier), nil
		}
	}
}

// operation returns a write in the form of etcd's client.
func operation(w store.Write, lease clientv3.LeaseID) clientv3.Op {
	switch {
	case w.Value == nil:
		return clientv3.OpDelete(w.Key)
	case lease != 0:
		return clientv3.OpPut(w.Key, string(w.Value), clientv3.WithLease(lease))
	}
	return clientv3.OpPut(w.Key, string(w.Value))
}

// dropped says that there was nobody to propose it to: it was not done.
func dropped(err error) bool {
	return err != nil && strings.Contains(err.Error(), raft.ErrProposalDropped.Error())
}

// try is one try of a transaction.
func (f *fence) try(ctx context.Context, w store.Write, op clientv3.Op, epoch int64, to chan<- answer) {
	resp, err := f.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(w.Key), "=", w.Expect), clientv3.Compare(clientv3.ModRevision(f.key), "=", epoch)).
		Then(op).
		Else(clientv3.OpGet(w.Key), clientv3.OpGet(f.key)).
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

// moved says that a try was refused because the fence had moved, and notes where it is.
func (f *fence) moved(a answer) bool {
	kvs := a.resp.Responses[1].GetResponseRange().Kvs
	if len(kvs) == 0 || kvs[0].ModRevision == a.epoch {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.epoch = max(f.epoch, kvs[0].ModRevision)
	return true
}

// at returns the revision of the fence. The first write of a process moves it: what one before it left on the way is done with, too.
func (f *fence) at(ctx context.Context) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.epoch == 0 {
		f.key = fmt.Sprintf("%s%x", fencePrefix, uint64(f.member.server.MemberID()))
		if err := f.put(ctx); err != nil {
			return 0, err
		}
	}
	return f.epoch, nil
}

// move moves the fence from where it was, if nobody else did since.
func (f *fence) move(ctx context.Context, from int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.epoch != from {
		return nil
	}
	return f.put(ctx)
}

// put tries until the fence has moved: this is lost as other writes are. Who calls it holds the lock.
func (f *fence) put(ctx context.Context) error {
	for {
		once, cancel := context.WithTimeout(ctx, fenceTry)
		resp, err := f.client.Put(once, f.key, "")
		cancel()
		if err == nil {
			f.epoch = max(f.epoch, resp.Header.Revision)
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
