package etcd

import (
	"bytes"
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
// changed and a write has no answer it moves the fence: what was not done by then never will be. Whether it was done says the
// history of the key; what was not is sent again.

// fencePrefix begins the keys of fences, out of sight of what follows the objects.
const fencePrefix = "/kloop/fence/"

const (
	fenceTry  = time.Second           // how long one move of the fence may take
	lateLimit = 50 * time.Millisecond // for an answer that came with the move
)

// A fence belongs to one member. The member's writes wait while it is moved.
type fence struct {
	kv     clientv3.KV
	member *member      // nil: there is none in this process
	peers  history      // what the fence knows of the other members
	newest func() int64 // revision that any answer has told of

	mu    sync.Mutex
	key   string
	epoch int64 // its newest known revision; 0: not known
}

// history tells a member of its peers' doings.
type history interface {
	// led returns a channel that is closed when another member leads.
	led() <-chan struct{}
	// changes returns those of keys with a prefix in the revisions after `after` up to newest, or the first of them.
	changes(prefix string, after, newest int64) (store.Batch, error)
}

func (m *member) led() <-chan struct{} { return m.server.LeaderChangedNotify() }

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
		return f.kv.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(w.Key), "=", w.Expect)).Then(operation(w, lease)).
			Else(clientv3.OpGet(w.Key)).Commit()
	case !f.member.peers || len(f.member.server.Cluster().Members()) < 2:
		return f.member.transact(ctx, w, lease)
	}
	return f.guarded(ctx, w, operation(w, lease))
}

// guarded tries a write until it is known to be done or refused, or until nothing is known of it any more.
func (f *fence) guarded(ctx context.Context, w store.Write, op clientv3.Op) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithCancel(ctx) // tries that can't succeed any more
	defer cancel()
	for {
		changed := f.peers.led()
		epoch, err := f.at(ctx)
		if err != nil {
			return nil, err
		}
		before, try := f.newest(), make(chan answer, 1)
		go f.try(ctx, w, op, epoch, try)
		var a answer
		select {
		case a = <-try:
		case <-changed:
			var lost bool
			if a, lost = f.settle(ctx, w, try, epoch, before); lost {
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
			return a.resp, nil
		}
	}
}

// settle moves the fence past a try that has no answer yet. The try is lost if it was not done by then, and never will be. Else it
// waits for the answer: that may have been made and not got here, and a second try would do the write twice, or be refused by what
// the first one did.
func (f *fence) settle(ctx context.Context, w store.Write, try <-chan answer, epoch, before int64) (a answer, lost bool) {
	if last, err := f.move(ctx, epoch); err == nil {
		select {
		case a = <-try:
			return a, false
		case <-time.After(lateLimit):
		}
		if f.notDone(w, before, last) {
			return answer{}, true
		}
	}
	return <-try, false
}

// notDone says that no change in the revisions after before up to last can be that write.
func (f *fence) notDone(w store.Write, before, last int64) bool {
	for before < last {
		batch, err := f.peers.changes(w.Key, before, last)
		if err != nil {
			return false // compacted meanwhile: nobody knows
		}
		for _, e := range batch.Events {
			if e.Key == w.Key && (e.KV == nil) == (w.Value == nil) && (e.KV == nil || bytes.Equal(e.KV.Value, w.Value)) {
				return false
			}
		}
		before = batch.Rev
	}
	return true
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
	resp, err := f.kv.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(w.Key), "=", w.Expect), clientv3.Compare(clientv3.ModRevision(f.key), "=", epoch)).
		Then(op).
		Else(clientv3.OpGet(w.Key), clientv3.OpGet(f.key)).
		Commit()
	to <- answer{resp, err, epoch}
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

// move moves the fence from where it was, if nobody else did since, and returns where it is.
func (f *fence) move(ctx context.Context, from int64) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.epoch != from {
		return f.epoch, nil
	}
	err := f.put(ctx)
	return f.epoch, err
}

// put tries until the fence has moved: this is lost as other writes are. The lock is held.
func (f *fence) put(ctx context.Context) error {
	for {
		once, cancel := context.WithTimeout(ctx, fenceTry)
		resp, err := f.kv.Put(once, f.key, "")
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
