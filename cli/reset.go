package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kloop-dev/kloop/clusters"
)

// reset removes all that kloop has made on this machine for a data directory, and the directory.
func reset(_ context.Context, std stdio, args []string) error {
	fs := flags(std, "reset", "")
	dir := fs.String("data-dir", "/var/lib/kloop", "directory of the server or the node; of a node that joined: /var/lib/kloop-node")
	keep := fs.Bool("keep-data", false, "leave the directory: store, keys, images and volumes")
	yes := fs.Bool("yes", false, "do not ask")
	if err := parse(fs, args); err != nil {
		return err
	}
	path, err := filepath.Abs(*dir)
	if err != nil {
		return err
	}
	if err := isDataDir(path); err != nil {
		return err
	}
	if err := mayReset(os.Geteuid()); err != nil {
		return err
	}
	if !*yes && !agreed(std, path, *keep) {
		return errors.New("nothing was done; --yes does not ask")
	}
	left, err := clusters.Reset(path, *keep)
	for _, l := range left {
		fmt.Fprintln(std.err, l)
	}
	if err != nil {
		return advise(err)
	}
	fmt.Fprintf(std.out, "nothing of kloop in %s is left\n", path)
	return nil
}

// mayReset refuses before anything is asked or begun. Where there are no users, as on Windows, uid is -1.
func mayReset(uid int) error {
	if uid > 0 {
		return errors.New("networks, mounts and containers are root's: use sudo; clusters of kloop create are removed by kloop delete")
	}
	return nil
}

// isDataDir refuses a directory that is none of kloop's: everything in it would go.
func isDataDir(path string) error {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("there is no data directory to reset: %w", err)
	}
	for _, name := range []string{"pki", "etcd", "runtime", "node", "kloop.pid"} {
		if exists(filepath.Join(path, name)) {
			return nil
		}
	}
	return fmt.Errorf("%s is no data directory of kloop: nothing was done", path)
}

func agreed(std stdio, path string, keep bool) bool {
	what := "containers, networks and " + path + " with all data"
	if keep {
		what = "containers and networks; " + path + " stays"
	}
	fmt.Fprintf(std.out, "This ends kloop and removes %s. Go on? [y/N] ", what)
	answer, _ := bufio.NewReader(std.in).ReadString('\n') // no answer is no
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// sayLeft tells on the way out what goes on running without kloop, and how to end it.
func sayLeft(std stdio, dir string) {
	if n := clusters.RunningPods(dir); n > 0 {
		fmt.Fprintf(std.out, "pods that go on running: %d; the next start finds them. To end them and remove all: kloop reset --data-dir %s\n",
			n, dir)
	}
}
