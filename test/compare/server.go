package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	mostAnswer = 64 << 20
	longest    = time.Minute // for an answer, watches included
)

// A server is one of the two that are compared.
type server struct {
	url  string
	http *http.Client
}

type pair struct{ a, b *server }

func newPair(a, b string) (*pair, error) {
	left, err := newServer(a)
	if err != nil {
		return nil, err
	}
	right, err := newServer(b)
	return &pair{left, right}, err
}

func newServer(kubeconfig string) (*server, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "compare/v1"
	config.Timeout = longest
	client, err := rest.HTTPClientFor(config)
	return &server{strings.TrimSuffix(config.Host, "/"), client}, err
}

// A trial is one question.
type trial struct {
	kind, verb   string // verb is a word of the report: create, update, status …
	field        string // which field was changed, without indexes
	what         string // how
	method, path string
	content      string // type of the body
	accept       string
	headers      map[string]string
	bodyA, bodyB []byte // differ in uid and resourceVersion alone
}

// An answer comes back from a server.
type answer struct {
	code     int
	warnings []string
	body     any // decoded; nil if it is no JSON
	text     string
}

func (s *server) ask(ctx context.Context, t trial, body []byte) answer {
	req, err := http.NewRequestWithContext(ctx, t.method, s.url+t.path, bytes.NewReader(body))
	if err != nil {
		return answer{text: err.Error()}
	}
	if t.content != "" {
		req.Header.Set("Content-Type", t.content)
	}
	req.Header.Set("Accept", "application/json")
	if t.accept != "" {
		req.Header.Set("Accept", t.accept)
	}
	for name, v := range t.headers {
		req.Header.Set(name, v)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return answer{text: "no answer: " + err.Error()}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return answer{text: "broken answer: " + err.Error()}
	}
	got := answer{code: resp.StatusCode, warnings: resp.Header.Values("Warning"), text: string(data)}
	watched := strings.Contains(t.path, "watch=") // what it tells is a matter of time
	if watched || json.Unmarshal(data, &got.body) != nil {
		got.body = nil
	}
	return got
}

// get reads a document.
func (s *server) get(ctx context.Context, path, accept string, into any) error {
	got := s.ask(ctx, trial{method: "GET", path: path, accept: accept}, nil)
	if got.code != http.StatusOK {
		return fmt.Errorf("%s%s: %d %.200s", s.url, path, got.code, got.text)
	}
	return json.Unmarshal([]byte(got.text), into)
}
