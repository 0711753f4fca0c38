package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/store/etcd"
)

// member lists the members of the store, or removes one.
func member(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "member", "list | remove NAME")
	config := fs.String("kubeconfig", "", "how to reach a server, as an administrator (default: as other commands do)")
	words, err := wordsOf(fs, args, 1, 2)
	if err != nil {
		return err
	}
	ask, ok := memberRequest(words)
	if !ok {
		return misused(fs)
	}
	door, cfg, err := doorOf(*config)
	if err != nil {
		return err
	}
	res, err := kloopPage(ctx, door, ask.method, cfg.Host, ask.path)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if ask.method == http.MethodDelete {
		_, err = fmt.Fprintf(std.out, "member %s is removed; its server stops, and needs an empty data directory to join again\n", words[1])
		return err
	}
	var list []etcd.Peer
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil {
		return fmt.Errorf("read the members: %w", err)
	}
	return answer(std, fs, items(shownMembers(list)), func(w io.Writer) error { return printMembers(w, list) })
}

type pageRequest struct{ method, path string }

func memberRequest(words []string) (ask pageRequest, ok bool) {
	switch {
	case len(words) == 1 && words[0] == "list":
		return pageRequest{http.MethodGet, cluster.MembersPath}, true
	case len(words) == 2 && words[0] == "remove" && !strings.Contains(words[1], "/"):
		return pageRequest{http.MethodDelete, cluster.MembersPath + "/" + words[1]}, true
	}
	return pageRequest{}, false
}

// shownMember is a member as programs read it.
type shownMember struct {
	Name    string `json:"name"`
	ID      string `json:"id"` // hexadecimal, as etcd's own tools have it
	Address string `json:"address,omitempty"`
	Votes   bool   `json:"votes"`
}

func shownMembers(list []etcd.Peer) (out []shownMember) {
	for _, m := range list {
		out = append(out, shownMember{m.Name, fmt.Sprintf("%x", m.ID), m.URL, !m.Learner})
	}
	return out
}

func printMembers(w io.Writer, list []etcd.Peer) error {
	out := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(out, "NAME\tID\tADDRESS\tVOTES")
	for _, m := range list {
		fmt.Fprintf(out, "%s\t%x\t%s\t%v\n", m.Name, m.ID, cmp.Or(m.URL, "-"), !m.Learner)
	}
	if err := out.Flush(); err != nil || len(list) != 1 || list[0].URL != "" {
		return err
	}
	_, err := fmt.Fprintln(w, "this server is alone, and takes others when it is started with --peer-listen HOST:PORT")
	return err
}

// kloopPage asks a server for one of kloop's own pages. Answers other than 200 are errors.
func kloopPage(ctx context.Context, door *http.Client, method, host, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(host, "/")+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := door.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	st := &metav1.Status{}
	if json.Unmarshal(text, st) != nil || st.Message == "" {
		st.Message = strings.TrimSpace(string(text))
	}
	if res.StatusCode == http.StatusNotFound && st.Reason == "" {
		st.Message = "the server keeps its store elsewhere, or is not kloop"
	}
	return nil, fmt.Errorf("%s %s: %s", method, path, st.Message)
}
