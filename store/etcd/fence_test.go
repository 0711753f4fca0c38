package etcd

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kloop-dev/kloop/store"
)

// lateAnswers is etcd whose answers to transactions are held until the test lets them through, or are lost.
type lateAnswers struct {
	clientv3.KV
	swallow atomic.Bool   // the next transaction
	tried   chan struct{} // gets a value when a transaction has been done, or swallowed
	hold    chan error    // what an answer waits for; an error takes its place
}

func (l *lateAnswers) Txn(ctx context.Context) clientv3.Txn { return &lateTxn{l.KV.Txn(ctx), l} }

type lateTxn struct {
	clientv3.Txn
	of *lateAnswers
}

func (t *lateTxn) If(c ...clientv3.Cmp) clientv3.Txn   { t.Txn = t.Txn.If(c...); return t }
func (t *lateTxn) Then(op ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Then(op...); return t }
func (t *lateTxn) Else(op ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(op...); return t }

func (t *lateTxn) Commit() (resp *clientv3.TxnResponse, err error) {
	if !t.of.swallow.CompareAndSwap(true, false) {
		resp, err = t.Txn.Commit()
	}
	t.of.tried <- struct{}{}
	if lost := <-t.of.hold; lost != nil {
		return nil, lost
	}
	return resp, err
}

// election is a member that sees another one lead once, when the test says so, and tells when its history is read.
type election struct {
	*member
	turn  chan struct{} // closed when another one leads
	turns chan chan struct{}
	read  chan struct{}
}

func (e election) led() <-chan struct{} {
	select {
	case turn := <-e.turns:
		return turn
	default:
		return nil
	}
}

func (e election) changes(key string, after, newest int64) (store.Batch, error) {
	defer func() {
		select {
		case e.read <- struct{}{}:
		default:
		}
	}()
	return e.member.changes(key, after, newest)
}

// A write whose answer is late or lost while the lead changed hands is neither done twice nor told as refused by itself; one that was
// not done is tried again.
func TestLateAnswer(t *testing.T) {
	t.Attr("retry", "never")
	lost := errors.New("request timed out")
	change := func(rev int64) store.Write {
		return store.Write{Key: "/registry/a", Value: []byte("theirs"), Expect: rev}
	}
	remove := func(rev int64) store.Write { return store.Write{Key: "/registry/a", Expect: rev} }
	for _, tt := range []struct {
		name    string
		swallow bool
		other   func(made int64) store.Write // what others do before the answer comes
		err     error
		tries   int
	}{
		{name: "done, late", tries: 1},
		{name: "done, lost", err: lost, tries: 1},
		{name: "done and changed, late", other: change, tries: 1},
		{name: "done and changed, lost", other: change, err: lost, tries: 1},
		{name: "done and deleted, late", other: remove, tries: 1},
		{name: "done and deleted, lost", other: remove, err: lost, tries: 1},
		{name: "not done", swallow: true, tries: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openWith(t, Config{Dir: t.TempDir()})
			kv := &lateAnswers{KV: s.client, tried: make(chan struct{}, 2), hold: make(chan error)}
			kv.swallow.Store(tt.swallow)
			peers := election{s.member, make(chan struct{}), make(chan chan struct{}, 1), make(chan struct{}, 1)}
			peers.turns <- peers.turn
			f := &fence{kv: kv, member: s.member, peers: peers, newest: s.head.now}
			w := store.Write{Key: "/registry/a", Value: []byte("mine")}
			result := make(chan answer, 1)
			go func() {
				resp, err := f.guarded(t.Context(), w, operation(w, 0))
				result <- answer{resp: resp, err: err}
			}()
			<-kv.tried
			if tt.other != nil {
				made, _, err := s.Get(t.Context(), w.Key)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Write(t.Context(), tt.other(made.ModRev)); err != nil {
					t.Fatal(err)
				}
			}
			close(peers.turn)
			<-peers.read
			tries := 1
			for {
				select {
				case kv.hold <- tt.err:
					continue
				case <-kv.tried:
					tries++
					continue
				case got := <-result:
					if tries != tt.tries || !errors.Is(got.err, tt.err) || tt.err == nil && !got.resp.Succeeded {
						t.Errorf("tried %d times and answered %v, %v, want %d tries and %v", tries, got.resp, got.err, tt.tries, tt.err)
					}
					return
				}
			}
		})
	}
}
