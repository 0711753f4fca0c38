package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kloop-dev/kloop/cli/settings"
	"github.com/kloop-dev/kloop/cli/upstream"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/features"
)

// How the environment changes what kloop does in the place of kube-apiserver: with loops a test environment has what
// a cluster has.
const (
	envControllers = "KLOOP_CONTROLLERS" // 1: all; or names as in the setting controllers.run
	envNodes       = "KLOOP_SIM_NODES"   // simulated nodes, when there are loops; default 1
)

// apiServer stands in for kube-apiserver: the front door on an etcd elsewhere. Keys that no flag names live in memory.
func apiServer(ctx context.Context, std stdio, args []string) error {
	p := apiserving{std: std, listen: "0.0.0.0", port: "6443", certDir: "/var/run/kubernetes"}
	p.o = settings.Defaults()
	p.o.NodeCIDRs = false // Nodes of tests keep what they were made with
	p.o.DataDir, p.o.Node, p.o.LogLevel = "", cluster.NodeNone, "warn"
	p.o.Controllers, p.o.SimNodes = nil, 0
	p.sheet = settings.New(&p.o)
	flags, err := upstream.APIServer().Parse(args)
	if errors.Is(err, upstream.ErrHelp) {
		upstream.APIServer().Help(std.out, p.does)
		return nil
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(flags, func(f upstream.Flag) bool { return f.Name == "version" && f.Value != "false" }) {
		return kubernetesVersion(std)
	}
	if err := p.fill(flags); err != nil {
		return err
	}
	c, err := begin(ctx, std, p.sheet, &p.o)
	if err != nil {
		return err
	}
	return advise(c.Wait())
}

// apiserving is a command line of kube-apiserver as it is being understood.
type apiserving struct {
	std                   stdio
	o                     settings.Options
	sheet                 *settings.Sheet
	listen, port, certDir string
	idle                  []string // flags that have no effect
	gated                 []string // feature gates as they were asked for
}

// fill takes the environment, then the flags, then what follows from both.
func (p *apiserving) fill(flags []upstream.Flag) error {
	if err := p.sheet.Fill(os.Getenv("KLOOP_CONFIG"), lookupEnv); err != nil {
		return err
	}
	many := map[string][]string{} // values of flags that may be given several times
	for _, f := range flags {
		key, list := p.sheet.ByFlag(f.Name, settings.Server)
		value := f.Value
		if list {
			many[key] = append(many[key], value)
			value = strings.Join(many[key], ",")
		}
		if err := p.take(key, f.Name, value); err != nil {
			return err
		}
	}
	if err := p.gates(); err != nil {
		return err
	}
	if len(p.o.EtcdServers) == 0 {
		return errors.New("--etcd-servers must be specified: kube-apiserver keeps nothing itself; kloop up is a whole cluster")
	}
	p.o.Listen = net.JoinHostPort(p.listen, p.port)
	p.o.NoLoops = len(p.o.Controllers) == 0
	if _, said := os.LookupEnv(envNodes); !p.o.NoLoops && !said {
		p.o.SimNodes = 1
	}
	p.ownCertificate()
	if len(p.idle) > 0 {
		log, err := logger(p.std, p.o.LogLevel, p.o.LogFormat)
		if err != nil {
			return err
		}
		log.Warn("these flags have no effect in kloop", "flags", strings.Join(p.idle, " "))
	}
	return nil
}

// take takes one flag.
func (p *apiserving) take(key, flag, value string) error {
	switch flag {
	case "secure-port":
		p.port = value
	case "bind-address":
		p.listen = value
	case "cert-dir":
		p.certDir = value
	case "external-hostname":
		p.o.Hosts = append(p.o.Hosts, value)
	case "v":
		p.o.LogLevel = verbosity(value)
	case "etcd-prefix":
		if strings.Trim(value, "/") != "registry" {
			return fmt.Errorf("--etcd-prefix=%s: kloop keeps everything below /registry", value)
		}
	case "feature-gates":
		p.gated = strings.Split(value, ",")
	default:
		if key == "" {
			p.idle = append(p.idle, "--"+flag+"="+value)
			return nil
		}
		return p.sheet.Set(key, value, "flag --"+flag)
	}
	return nil
}

// does says whether a flag has an effect.
func (p *apiserving) does(flag string) bool {
	if key, _ := p.sheet.ByFlag(flag, settings.Server); key != "" {
		return true
	}
	return slices.Contains([]string{"secure-port", "bind-address", "cert-dir", "external-hostname", "v", "version"}, flag)
}

// gates takes the feature gates that can be switched, when the version is known.
//
// Unlike Kubernetes, other gates are passed over, misspelt ones too: suites name gates of many versions and should run.
func (p *apiserving) gates() error {
	minor, err := features.Parse(p.o.EmulatedVersion)
	if err != nil {
		return fmt.Errorf("flag --emulated-version: %w", err)
	}
	var ours []string
	for _, part := range p.gated {
		part = strings.TrimPrefix(strings.TrimSpace(part), "kube:")
		name, on, _ := strings.Cut(part, "=")
		g, known := features.Known(minor)[name]
		if want, err := strconv.ParseBool(on); known && (err != nil || !g.Locked || want == g.Default) {
			ours = append(ours, part)
		} else if name != "" {
			p.idle = append(p.idle, "--feature-gates="+part)
		}
	}
	if ours == nil {
		return nil
	}
	return p.sheet.Set("featureGates", strings.Join(ours, ","), "flag --feature-gates")
}

// ownCertificate takes the pair of the directory of certificates, if one is there and no flag names another.
func (p *apiserving) ownCertificate() {
	cert, key := filepath.Join(p.certDir, "apiserver.crt"), filepath.Join(p.certDir, "apiserver.key")
	if _, err := os.Stat(cert); p.o.ServingCert == "" && err == nil {
		p.o.ServingCert, p.o.ServingKey = cert, key
	}
}

// verbosity is the level of klog as one of ours.
func verbosity(v string) string {
	switch {
	case v == "" || v == "0":
		return "warn"
	case len(v) == 1 && v < "4":
		return "info"
	}
	return slog.LevelDebug.String()
}

// lookupEnv is the environment, with 1 and 0 for all controllers and none.
func lookupEnv(name string) (string, bool) {
	value, ok := os.LookupEnv(name)
	if name == envControllers {
		switch value {
		case "1", "true":
			value = "*"
		case "0", "false":
			return "", false
		}
	}
	return value, ok
}
