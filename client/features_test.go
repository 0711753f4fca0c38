package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/features"
)

// TestFeatures asks servers which Kubernetes they are.
func TestFeatures(t *testing.T) {
	const metrics = `# HELP kubernetes_feature_enabled x
kubernetes_feature_enabled{name="WatchList",stage="BETA"} 0
kubernetes_feature_enabled{name="PersistentVolumeClaimUnusedSinceTime",stage="ALPHA"} 1
kubernetes_feature_enabled{name="OfAnotherWorld",stage="ALPHA"} 1
kubernetes_feature_enabled{
etcd_requests_total{name="InPlacePodVerticalScaling"} 0
`
	told := map[string]bool{"WatchList": false, "PersistentVolumeClaimUnusedSinceTime": true}
	for _, tt := range []struct {
		name, version string
		status        int // of /metrics
		want          *features.Set
	}{
		{"the newest", `{"major":"1","minor":"37","emulationMinor":"37"}`, 200, features.Told(37, told)},
		{"an emulated one", `{"major":"1","minor":"37","emulationMinor":"36"}`, 200, features.Told(36, told)},
		{"one that says no more", `{"major":"1","minor":"36+"}`, 200, features.Told(36, told)},
		{"one that is too old", `{"major":"1","minor":"30"}`, 200, features.Told(36, told)},
		{"one that is to come", `{"major":"1","minor":"99"}`, 200, features.Told(37, told)},
		{"metrics are for others", `{"minor":"36"}`, 403, features.Told(36, nil)},
		{"there are no metrics", `{"minor":"36"}`, 404, features.Told(36, nil)},
		{"metrics fail", `{"minor":"36"}`, 500, features.Told(36, nil)},
		{"metrics are not ready", `{"minor":"36"}`, 503, features.Told(36, nil)},
		{"no version", `{}`, 200, nil},
		{"no number", `{"minor":"x"}`, 200, nil},
		{"no JSON", `<html>`, 200, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/version" {
					_, _ = fmt.Fprint(w, tt.version)
					return
				}
				w.WriteHeader(tt.status)
				_, _ = fmt.Fprint(w, metrics)
			}))
			defer s.Close()
			got, err := client.Features(t.Context(), &rest.Config{Host: s.URL})
			if (err == nil) != (tt.want != nil) {
				t.Fatal(err)
			}
			if err == nil && (got.Minor() != tt.want.Minor() || got.On("WatchList") != tt.want.On("WatchList") ||
				got.On("PersistentVolumeClaimUnusedSinceTime") != tt.want.On("PersistentVolumeClaimUnusedSinceTime") ||
				got.On("OfAnotherWorld") || !got.On("InPlacePodVerticalScaling")) {
				t.Errorf("it is %v", got)
			}
		})
	}
}
