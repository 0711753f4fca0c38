package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/version"

	"github.com/kloop-dev/kloop/cli/upstream"
	"github.com/kloop-dev/kloop/store/etcd"
)

// etcdHonours are the flags of etcd that have an effect.
var etcdHonours = []string{"data-dir", "name", "listen-client-urls", "unsafe-no-fsync", "quota-backend-bytes", "initial-cluster",
	"log-level", "version"}

// etcdServer stands in for etcd: one member, which answers clients in the clear.
func etcdServer(ctx context.Context, std stdio, args []string) error {
	for i, a := range args {
		if len(a) > 2 && a[0] == '-' && a[1] != '-' { // etcd takes one dash too
			args[i] = "-" + a
		}
	}
	flags, err := upstream.Etcd().Parse(args)
	if errors.Is(err, upstream.ErrHelp) {
		upstream.Etcd().Help(std.out, func(f string) bool { return slices.Contains(etcdHonours, f) })
		return nil
	}
	if err != nil {
		return err
	}
	m, err := readMember(flags)
	if err != nil {
		return err
	}
	if m.version {
		_, err := fmt.Fprintf(std.out, "etcd Version: %s\nGit SHA: kloop\n", version.Version)
		return err
	}
	if m.cfg.Log, err = logger(std, m.level, logText); err != nil {
		return err
	}
	if len(m.idle) > 0 {
		m.cfg.Log.Warn("these flags have no effect in kloop", "flags", strings.Join(m.idle, " "))
	}
	if m.cfg.Clients, err = net.Listen("tcp", m.listen); err != nil {
		return advise(fmt.Errorf("listen for clients: %w", err))
	}
	st, err := etcd.Open(ctx, m.cfg)
	if err != nil {
		return advise(errors.Join(err, m.cfg.Clients.Close()))
	}
	<-ctx.Done()
	return st.Close()
}

// etcdMember is a command line of etcd as it was understood.
type etcdMember struct {
	cfg           etcd.Config
	listen, level string
	version       bool
	idle          []string
}

func readMember(flags []upstream.Flag) (m etcdMember, err error) {
	m = etcdMember{listen: "localhost:2379", level: "warn"}
	name := "default"
	for _, f := range flags {
		switch f.Name {
		case "name":
			name = f.Value
		case "data-dir":
			m.cfg.Dir = f.Value
		case "listen-client-urls":
			m.listen, err = clientAddress(f.Value)
		case "unsafe-no-fsync":
			m.cfg.NoSync = f.Value != "false"
		case "quota-backend-bytes":
			m.cfg.Quota, err = strconv.ParseInt(f.Value, 10, 64)
		case "version":
			m.version = f.Value != "false"
		case "log-level":
			m.level = f.Value
		case "initial-cluster":
			if strings.Contains(f.Value, ",") {
				err = errors.New("kloop in the place of etcd is a cluster of one member; kloop server --join makes larger ones")
			}
		case "cert-file", "trusted-ca-file", "client-cert-auth", "auto-tls":
			if f.Value != "" && f.Value != "false" {
				err = errors.New("kloop in the place of etcd answers in the clear only")
			}
		case "listen-peer-urls", "advertise-client-urls", "initial-advertise-peer-urls": // nobody else is in the cluster
		default:
			m.idle = append(m.idle, "--"+f.Name+"="+f.Value)
		}
		if err != nil {
			return m, fmt.Errorf("--%s=%s: %w", f.Name, f.Value, err)
		}
	}
	if m.cfg.Dir == "" {
		m.cfg.Dir = name + ".etcd"
	}
	return m, nil
}

// clientAddress returns the address to listen on: the host and port of a URL.
func clientAddress(urls string) (string, error) {
	if strings.Contains(urls, ",") {
		return "", errors.New("kloop in the place of etcd listens at one address")
	}
	u, err := url.Parse(urls)
	switch {
	case err != nil:
		return "", err
	case u.Scheme != "http" || u.Host == "":
		return "", errors.New("use http://HOST:PORT: kloop in the place of etcd answers in the clear only")
	}
	return u.Host, nil
}
