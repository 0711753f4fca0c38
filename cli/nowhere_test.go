package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNobodyListens: who asks a server that is gone, or kubectl while no cluster is known, hears what to do next.
func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "config")
	text := "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], " +
		"users: [{name: a, user: {}}], clusters: [{name: a, cluster: {server: 'http://" + gone + "'}}]}"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"why", "gaps", "loops", "certs list", "member list", "trace deployment/x"} {
		if _, errs, code := typed(t, line+" --kubeconfig "+config); code != 1 || !strings.Contains(errs, "kloop status") {
			t.Errorf("%s: code %d, %q", line, code, errs)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte("#!/bin/sh\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	t.Setenv("HOME", dir)
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	if _, errs, code := typed(t, "kubectl get nodes"); code != 3 || !strings.Contains(errs, "no cluster is known") {
		t.Errorf("code %d, %q", code, errs)
	}
	t.Setenv("KUBECONFIG", config)
	if _, errs, code := typed(t, "kubectl get nodes"); code != 3 || errs != "" {
		t.Errorf("code %d, %q", code, errs)
	}
}

// TestResetNeedsRoot: it says so before it asks or begins.
func TestResetNeedsRoot(t *testing.T) {
	if err := mayReset(1000); err == nil || !strings.Contains(err.Error(), "sudo") {
		t.Errorf("%v", err)
	}
	for _, uid := range []int{0, -1} {
		if err := mayReset(uid); err != nil {
			t.Errorf("%d: %v", uid, err)
		}
	}
}
