package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"

	contract "github.com/kloop-dev/kloop/store/member"
)

// Remote says how to reach an etcd cluster.
type Remote = contract.Remote

const (
	dialTimeout  = 10 * time.Second // of one connection
	dialPatience = time.Minute
	tryPatience  = 5 * time.Second // for one answer at the start
)

// Dial connects to an etcd cluster, and returns when it answers, or with an error when it has not for long. The cluster's compaction
// is taken care of as by upstream's API servers, together with those that may run beside; its defragmentation is not.
func Dial(ctx context.Context, r Remote) (*Store, error) {
	if len(r.Endpoints) == 0 {
		return nil, errors.New("connect to etcd: no endpoints given")
	}
	if r.Log == nil {
		r.Log = slog.Default()
	}
	if r.Keep == 0 {
		r.Keep = defaultKeep
	}
	c := clientv3.Config{
		Endpoints:            r.Endpoints,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    30 * time.Second,
		DialKeepAliveTimeout: 10 * time.Second,
		MaxCallSendMsgSize:   64 << 20, // the server says what is too large
		Logger:               zapLogger(r.Log),
	}
	where := strings.Join(r.Endpoints, ", ")
	if r.CAFile != "" || r.CertFile != "" || strings.HasPrefix(r.Endpoints[0], "https:") {
		files := transport.TLSInfo{TrustedCAFile: r.CAFile, CertFile: r.CertFile, KeyFile: r.KeyFile}
		tls, err := files.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("connect to etcd at %s: %w", where, err)
		}
		c.TLS = tls
	}
	client, err := clientv3.New(c)
	if err != nil {
		return nil, fmt.Errorf("connect to etcd at %s: %w", where, err)
	}
	s := newStore(client, nil, r.Log)
	if err := s.greet(ctx, cmp.Or(r.Patience, dialPatience), where); err != nil {
		s.Close()
		return nil, err
	}
	s.upkeep.Go(func() { s.keepUp(r.Keep) })
	return s, nil
}

// greet waits for the first answer and says that it does.
func (s *Store) greet(ctx context.Context, patience time.Duration, where string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		try, stop := context.WithTimeout(ctx, tryPatience)
		_, err := s.Revision(try)
		stop()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("connect to etcd at %s: no answer for %v: check the addresses, and the certificates if it is https: %w", where,
				patience, err)
		}
		s.log.Info("etcd does not answer yet", "servers", where, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}
