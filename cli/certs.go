package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kloop-dev/kloop/auth/authn"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/clusters"
	"github.com/kloop-dev/kloop/internal/coldsort"
)

// certs lists the certificates of a running cluster, has them issued anew, or exchanges its keys in two steps.
func certs(ctx context.Context, std stdio, args []string) error {
	fs := flags(std, "certs", "list | renew | rotate | finish")
	config := fs.String("kubeconfig", "", "how to reach a server, as an administrator (default: as other commands do)")
	force := fs.Bool("force", false, "with finish: also while certificates of the authority of before are in use")
	tokens := fs.Bool("tokens", false, "with finish: tokens that the key of before signed end too, those in Secrets among them")
	words, err := wordsOf(fs, args, 1, 1)
	if err != nil {
		return err
	}
	if !slices.Contains([]string{"list", "renew", "rotate", "finish"}, words[0]) {
		return misused(fs)
	}
	door, cfg, err := doorOf(*config)
	if err != nil {
		return err
	}
	if words[0] == "list" {
		return listCerts(ctx, std, fs, door, cfg.Host)
	}
	var query []string
	for name, on := range map[string]bool{"force": *force, "tokens": *tokens} {
		if on {
			query = append(query, name)
		}
	}
	res, err := kloopPage(ctx, door, http.MethodPost, cfg.Host, cluster.CertsPath+"/"+words[0]+"?"+strings.Join(query, "&"))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := refreshContexts(cfg.Host); err != nil {
		return fmt.Errorf("the certificates are exchanged, but not in the kubeconfig with the cluster's context: %w", err)
	}
	_, err = fmt.Fprintln(std.out, map[string]string{
		"renew": "all servers show new certificates, and admin.kubeconfig on their machines has a new one",
		"rotate": "a new authority signs, and the one before is still believed: take new kubeconfigs (kloop kubeconfig, admin.kubeconfig),\n" +
			"look with kloop certs list who still shows old certificates, then kloop certs finish",
		"finish": "the authority of before is believed no more; where several servers keep the store, " +
			"members believe it until each was started anew",
	}[words[0]])
	return err
}

// refreshContexts puts the new certificates into kubeconfigs when the server is that of a named cluster of this machine.
func refreshContexts(host string) error {
	root, err := clusters.Default()
	if err != nil {
		return nil // who has no directory of clusters has none of them
	}
	list, _ := root.List() // kloop list says which can't be read
	for _, c := range list {
		if c.Server() == host {
			return c.Refresh()
		}
	}
	return nil
}

func listCerts(ctx context.Context, std stdio, fs *flag.FlagSet, door *http.Client, host string) error {
	res, err := kloopPage(ctx, door, http.MethodGet, host, cluster.CertsPath+"?all")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var list []*cluster.Certs
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil {
		return fmt.Errorf("read the certificates: %w", err)
	}
	return answer(std, fs, items(list), func(w io.Writer) error { return printCerts(w, list, time.Now()) })
}

func printCerts(w io.Writer, list []*cluster.Certs, now time.Time) error {
	out := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(out, "SERVER\tCERTIFICATE\tAGE\tLEFT\tUSED\tSIGNED BY")
	for _, s := range list {
		if s.Error != "" {
			fmt.Fprintf(out, "%s\t%s\n", s.Server, s.Error)
		}
		for _, c := range s.Certificates {
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\t\t\n", s.Server, c.What, duration.HumanDuration(now.Sub(c.From)), left(c.Until, now))
		}
		coldsort.Func(s.Clients, func(a, b authn.Shown) int { return strings.Compare(a.User, b.User) })
		for _, c := range s.Clients {
			by := "the authority"
			if !bytes.Equal(c.Root, s.Authority) {
				by = "another authority"
			}
			fmt.Fprintf(out, "%s\tof %s\t%s\t%s\t%s ago\t%s\n", s.Server, c.User, duration.HumanDuration(now.Sub(c.From)), left(c.Until, now),
				duration.HumanDuration(now.Sub(c.Used)), by)
		}
	}
	return out.Flush()
}

func left(until, now time.Time) string {
	if !now.Before(until) {
		return "expired"
	}
	return duration.HumanDuration(until.Sub(now))
}
