// Command postgres-operator is the operator of PostgresClusters, and every process in their pods: "operator" decides, "instance" runs a
// PostgreSQL, "archive" keeps backups and WAL; PostgreSQL itself calls "push" and "fetch".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
	"github.com/kloop-dev/kloop/examples/postgres/archive"
	"github.com/kloop-dev/kloop/examples/postgres/instance"
	"github.com/kloop-dev/kloop/examples/postgres/operator"
)

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		slog.Error("ended", "err", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: postgres-operator operator | instance | archive | push PATH NAME | fetch URL NAME PATH")
	}
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	cluster := flags.String("cluster", "", "name of the PostgresCluster that this pod belongs to")
	elect := flags.Bool("leader-elect", false, "run beside others, of which one is active")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "operator":
		return runOperator(ctx, *elect)
	case "instance":
		return runInstance(ctx, *cluster)
	case "archive":
		return runArchive(ctx, *cluster)
	case "push":
		return archive.Push(ctx, archive.URL(os.Getenv("CLUSTER")), os.Getenv("ARCHIVE_TOKEN"), flags.Arg(0), flags.Arg(1))
	case "fetch":
		return archive.Fetch(ctx, flags.Arg(0), os.Getenv("SOURCE_TOKEN"), flags.Arg(1), flags.Arg(2))
	}
	return fmt.Errorf("%s is no command", args[0])
}

func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s))
}

func runOperator(ctx context.Context, elect bool) error {
	s, err := scheme()
	if err != nil {
		return err
	}
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	ctrl.SetLogger(logr.FromSlogHandler(slog.Default().Handler()))
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{Scheme: s, Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: elect, LeaderElectionID: "postgres-operator", LeaderElectionReleaseOnCancel: true,
		LeaseDuration: new(4 * time.Second), RenewDeadline: new(3 * time.Second), RetryPeriod: new(500 * time.Millisecond)})
	if err != nil {
		return err
	}
	if err := (&operator.Reconciler{Client: mgr.GetClient(), Patience: operator.Usual}).SetUp(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// direct is a client without a cache, whose requests are short.
func direct() (client.Client, error) {
	s, err := scheme()
	if err != nil {
		return nil, err
	}
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	cfg.Timeout, cfg.QPS = 2*time.Second, -1
	return client.New(cfg, client.Options{Scheme: s})
}

func runInstance(ctx context.Context, cluster string) error {
	api, err := direct()
	if err != nil {
		return err
	}
	server := &instance.Postgres{Dir: "/data", Name: os.Getenv("POD"), Secret: os.Getenv("STREAMER_PASSWORD"),
		AppPassword: os.Getenv("APP_PASSWORD"), SourceToken: os.Getenv("SOURCE_TOKEN"), Self: "/usr/bin/postgres-operator", Log: slog.Default(),
		Archive: func(ctx context.Context) bool { return archive.Answers(ctx, archive.URL(cluster)) }}
	m := &instance.Manager{API: api, Server: server, Namespace: os.Getenv("NAMESPACE"), Cluster: cluster, Pod: os.Getenv("POD"),
		UID: types.UID(os.Getenv("POD_UID")), Timing: instance.Usual, Log: slog.Default()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if !m.Ready() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	if err := listen(ctx, mux); err != nil {
		return err
	}
	if err := os.Setenv("CLUSTER", cluster); err != nil { // for push
		return err
	}
	if err := server.Open(ctx); err != nil {
		return err
	}
	return m.Run(ctx)
}

func runArchive(ctx context.Context, cluster string) error {
	api, err := direct()
	if err != nil {
		return err
	}
	keeper := &archive.Keeper{API: api, Dir: "/data", Namespace: os.Getenv("NAMESPACE"), Cluster: cluster,
		Token: os.Getenv("ARCHIVE_TOKEN"), Secret: os.Getenv("STREAMER_PASSWORD"), Log: slog.Default()}
	if err := keeper.Open(); err != nil {
		return err
	}
	if err := listen(ctx, keeper.Handler()); err != nil {
		return err
	}
	return keeper.Run(ctx)
}

// listen serves until ctx ends.
func listen(ctx context.Context, h http.Handler) error {
	server := &http.Server{Addr: ":8008", Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	go func() {
		<-ctx.Done()
		_ = server.Close() // whoever asks sees it
	}()
	select {
	case err := <-failed:
		return err
	case <-time.After(50 * time.Millisecond):
		return nil
	}
}
