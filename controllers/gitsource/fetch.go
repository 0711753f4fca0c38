package gitsource

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/kloop-dev/kloop/internal/family"
)

// Bounds of one fetch.
const (
	fetchTime  = 2 * time.Minute
	maxPack    = 256 << 20 // bytes of any file that git writes
	maxArchive = 64 << 20  // bytes of the files, compressed
	maxSays    = 2 << 10   // bytes that git says when it fails
)

// secrets are the keys of the Secret.
type secrets map[string][]byte

// A repository is a bare copy of what is followed, with no history, made by the machine's own git.
type repository struct{ dir string }

var errNoGit = errors.New("there is no git on the server's machine: install it (apt-get install git)")

// fetch brings the copy to what spec follows and returns its commit. What git may do is narrow: no checkout, no hooks, no
// configuration but ours, no protocols but three, no redirects that would carry credentials elsewhere.
func (r repository) fetch(ctx context.Context, spec Spec, secret secrets) (commit string, err error) {
	if _, err := exec.LookPath("git"); err != nil {
		return "", errNoGit
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	if _, err := os.Stat(filepath.Join(r.dir, "HEAD")); err != nil {
		if err := os.MkdirAll(r.dir, 0o700); err != nil {
			return "", err
		}
		if _, err := r.git(ctx, nil, "init", "-q", "--bare"); err != nil {
			return "", err
		}
	}
	env, err := r.credentials(secret)
	if err != nil {
		return "", err
	}
	before, _ := r.git(ctx, nil, "rev-parse", "-q", "--verify", here)
	_, err = r.git(ctx, env, "fetch", "-q", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--",
		spec.URL, "+"+spec.Ref.name()+":"+here)
	if err != nil {
		return "", err
	}
	now, err := r.git(ctx, nil, "rev-parse", "-q", "--verify", here+"^{commit}")
	if err != nil {
		return "", err
	}
	if before != now { // what was followed before is not kept
		if _, err := r.git(ctx, nil, "gc", "-q", "--prune=now"); err != nil {
			return "", err
		}
	}
	return now, nil
}

// here is the ref of the copy.
const here = "refs/kloop/now"

// files returns the tree below a path of a commit.
func (r repository) files(ctx context.Context, commit, path string) (fs.FS, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	tree := commit
	if path = strings.Trim(path, "/"); path != "" {
		tree += ":" + path
		if _, err := r.git(ctx, nil, "rev-parse", "-q", "--verify", tree); err != nil { // it is not there, as when its last file went
			return zip.NewReader(strings.NewReader(emptyZip), int64(len(emptyZip)))
		}
	}
	data, err := r.git(ctx, nil, "archive", "--format=zip", "-1", tree)
	if err != nil {
		return nil, err
	}
	return zip.NewReader(strings.NewReader(data), int64(len(data)))
}

// emptyZip is an archive of no files: the end of a directory of none.
const emptyZip = "PK\x05\x06" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// git runs one command in the copy and returns what it printed, without the last newline.
func (r repository) git(ctx context.Context, env []string, args ...string) (string, error) {
	script := fmt.Sprintf(`ulimit -f %d; exec git "$@"`, maxPack/512) // a repository that is larger ends git, not the disk
	// Git has others do the fetching.
	cmd := family.Command(exec.CommandContext(ctx, "sh", append([]string{"-c", script, "git"}, args...)...))
	cmd.Dir = r.dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "GIT_DIR=" + r.dir, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=https:http:ssh", "GIT_ADVICE=0"}, env...)
	out, says := &limited{most: maxArchive}, &limited{most: maxSays}
	cmd.Stdout, cmd.Stderr = out, says
	if args[0] == "init" {
		cmd.Env = append(cmd.Env, "GIT_TEMPLATE_DIR=")
	}
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("git %s took longer than %v", args[0], fetchTime)
	case err != nil:
		return "", fmt.Errorf("git %s: %s", args[0], cmp.Or(strings.TrimSpace(says.String()), err.Error()))
	case out.over:
		return "", fmt.Errorf("git %s: more than %d MiB", args[0], maxArchive>>20)
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// credentials are git's settings for a Secret. They go by the environment, which other users of the machine can't read.
func (r repository) credentials(s secrets) (env []string, err error) {
	config := [][2]string{{"http.followRedirects", "false"}, {"gc.auto", "0"}}
	switch {
	case len(s["bearerToken"]) > 0:
		config = append(config, [2]string{"http.extraHeader", "Authorization: Bearer " + strings.TrimSpace(string(s["bearerToken"]))})
	case len(s["password"]) > 0:
		pair := base64.StdEncoding.EncodeToString([]byte(string(s["username"]) + ":" + string(s["password"])))
		config = append(config, [2]string{"http.extraHeader", "Authorization: Basic " + pair})
	}
	for _, f := range []struct{ key, file string }{{"identity", "identity"}, {"known_hosts", "known_hosts"}, {"ca.crt", "ca.crt"}} {
		path := filepath.Join(r.dir, f.file)
		if len(s[f.key]) == 0 {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			continue
		}
		if err := os.WriteFile(path, append(bytes.TrimRight(s[f.key], "\n"), '\n'), 0o600); err != nil {
			return nil, err
		}
	}
	if len(s["ca.crt"]) > 0 {
		config = append(config, [2]string{"http.sslCAInfo", filepath.Join(r.dir, "ca.crt")})
	}
	env = append(env, fmt.Sprintf("GIT_SSH_COMMAND=ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes "+
		"-o UserKnownHostsFile=%s -i %s", quote(filepath.Join(r.dir, "known_hosts")), quote(filepath.Join(r.dir, "identity"))),
		fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(config)))
	for i, kv := range config {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, kv[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, kv[1]))
	}
	return env, nil
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// limited keeps the first bytes that are written to it, and takes the rest without keeping it.
type limited struct {
	bytes.Buffer
	most int
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if room := l.most - l.Len(); len(p) > room {
		l.over = true
		_, _ = l.Buffer.Write(p[:max(room, 0)]) // a buffer takes all
		return len(p), nil
	}
	return l.Buffer.Write(p)
}

// ReadFrom hides the buffer's own, which has no limit.
func (l *limited) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{l}, r)
}
