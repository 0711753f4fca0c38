package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Remote says how to reach an etcd cluster. With an https endpoint the connection is verified with CAFile, or
// the system's authorities when that is empty; CertFile and KeyFile are read anew for every connection, so
// that they can be rotated.
type Remote struct {
	Endpoints                 []string
	CAFile, CertFile, KeyFile string
	Keep                      time.Duration // history that compaction leaves, up to twice that; 0: 5 minutes
	Log                       *slog.Logger  // nil: the default logger
}

// dialPatience bounds the wait for the first answer.
const dialPatience = 10 * time.Second

// Dial connects to an etcd cluster, and returns when it answers. The cluster's compaction is taken care of as
// by upstream's API servers, together with those that may run beside; its defragmentation is not.
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
		DialTimeout:          dialPatience,
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
	ctx, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	if _, err := s.Revision(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("connect to etcd at %s: %w", where, err)
	}
	s.upkeep.Go(func() { s.keepUp(r.Keep) })
	return s, nil
}
