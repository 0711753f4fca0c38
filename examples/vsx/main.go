// Command vsx is a control plane for pairs of AOS-CX switches: one program with an API server, a store and the loop that keeps each
// VSXPair as it is wanted over the switches' REST API. It needs no cluster and no pods.
//
// +groupName=network.kloop.dev
// +versionName=v1alpha1
package main

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kloop-dev/kloop/engine"
	"github.com/kloop-dev/kloop/engine/disk"
	"github.com/kloop-dev/kloop/examples/vsx/aoscx"
)

func main() {
	dir := flag.String("data-dir", "", "where all is kept; without, in memory")
	listen := flag.String("listen", "127.0.0.1:7443", "address of the API")
	kubeconfig := flag.String("kubeconfig", "vsx.kubeconfig", "file that is written for kubectl")
	poll := flag.Duration("poll", 10*time.Second, "how often switches are looked at")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, engine.Config{DataDir: *dir, Store: disk.Etcd(), Listen: *listen, Kubeconfig: *kubeconfig}, *poll); err != nil {
		log.Fatal(err)
	}
}

// serve runs the control plane until ctx ends.
func serve(ctx context.Context, cfg engine.Config, poll time.Duration) error {
	secrets := &secretReader{ready: make(chan struct{})}
	o := newOperator(secrets.read, aoscx.Transport)
	p, err := engine.Start(ctx, cfg, o.loop(poll))
	if err != nil {
		return err
	}
	if err := secrets.open(p); err != nil {
		return errors.Join(err, p.Stop())
	}
	log.Printf("KUBECONFIG=%s kubectl get vsx -A", cfg.Kubeconfig)
	err = p.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	o.close(ctx)
	return err
}

// A secretReader reads Secrets of the plane, once it runs.
type secretReader struct {
	ready  chan struct{}
	client dynamic.Interface
}

// open has reads go on.
func (s *secretReader) open(p *engine.Plane) error {
	cfg, err := p.Rest()
	if err != nil {
		return err
	}
	if s.client, err = dynamic.NewForConfig(cfg); err != nil {
		return err
	}
	close(s.ready)
	return nil
}

func (s *secretReader) read(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ready:
	}
	all := s.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	u, err := all.Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return secretData(u)
}

func secretData(u *unstructured.Unstructured) (map[string][]byte, error) {
	text, _, err := unstructured.NestedStringMap(u.Object, "data")
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{}
	for k, v := range text {
		if data[k], err = base64.StdEncoding.DecodeString(v); err != nil {
			return nil, fmt.Errorf("key %s: %w", k, err)
		}
	}
	return data, nil
}
