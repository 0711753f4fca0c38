//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kloop-dev/kloop/examples/postgres/api/v1alpha1"
)

// back bounds the time without service when a process, a pod or a node is lost.
const back = 15 * time.Second

// TestPostgres takes a cluster through what can happen to it, under load, in synchronous mode.
func TestPostgres(t *testing.T) {
	m := start(t)
	m.kubectl("apply -f ../config/crd -f ../config/rbac -f ../config/operator.yaml")
	// The node that will be lost has no operator: one that starts anew measures silence anew, and that is not what is timed here.
	m.kubectl(`patch -n postgres-operator deployment postgres-operator -p '%s'`,
		`{"spec":{"template":{"spec":{"nodeSelector":{"kubernetes.io/hostname":"one"}}}}}`)
	c := &cluster{machine: m, name: "shop"}
	m.kubectl("cordon one")
	c.create(v1alpha1.PostgresClusterSpec{EngineVersion: "15.3", StorageSize: resource.MustParse("1Gi"), Synchronous: v1alpha1.Required,
		Replication: v1alpha1.Replication{Enabled: true, ReplicaCount: 2}, DeletionPolicy: "Delete", BackupSchedule: "0 2 * * *"})
	began := time.Now()
	m.eventually("the first instance is on node two", patience, func(ctx context.Context) (bool, string) {
		p := &corev1.Pod{}
		err := m.api.Get(ctx, c.key("shop-1"), p)
		return err == nil && p.Spec.NodeName == "two", fmt.Sprint(err)
	})
	m.kubectl("uncordon one")
	m.kubectl("cordon two")
	c.ready()
	m.kubectl("uncordon two")
	t.Logf("three instances are ready after %s", time.Since(began).Round(time.Second))

	dsn := c.dsn()
	c.query(dsn, "create table acked (key bigint primary key)")
	l := write(t.Context(), dsn, 0, 4)
	m.eventually("writes are acknowledged", patience, func(context.Context) (bool, string) { return l.after(began), "" })

	c.disturb(l, "the process is killed", func(primary string) {
		m.kubectl(`exec %s -- sh -c 'read pid </data/data/postmaster.pid; kill -9 $pid'`, primary)
	})
	c.disturb(l, "the node is cut off", func(primary string) {
		if primary != "shop-1" {
			t.Fatalf("%s is primary, and not on node two", primary)
		}
		m.sh("ip link set %s down", nodes[1].link)
	})
	c.fenced()
	m.kill(1)
	m.sh("ip link set %s up", nodes[1].link)
	m.join()
	c.ready()
	c.disturb(l, "the pod is killed", func(primary string) { m.kubectl("delete pod %s --grace-period=0 --force", primary) })
	c.ready()
	c.disturb(l, "the first process of the pod is killed", func(primary string) { c.killFirst(primary) })
	c.ready()

	acked := l.end()
	lost, err := l.lost(t.Context())
	if err != nil || len(lost) > 0 {
		t.Attr("retry", "never")
		t.Errorf("%d of %d acknowledged rows are lost: %v, %v", len(lost), len(acked), lost[:min(len(lost), 10)], err)
	}
	t.Logf("%d rows were acknowledged, %d are lost", len(acked), len(lost))
	c.rolls(dsn)
	c.restores(dsn)
	c.removed()
}

// A cluster under test.
type cluster struct {
	*machine
	name string
}

func (c *cluster) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: "default", Name: name}
}

func (c *cluster) create(spec v1alpha1.PostgresClusterSpec) {
	c.t.Helper()
	obj := &v1alpha1.PostgresCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: c.name}, Spec: spec}
	c.eventually("the kind is served", patience, func(ctx context.Context) (bool, string) {
		err := c.api.Create(ctx, obj.DeepCopy())
		return err == nil, fmt.Sprint(err)
	})
}

func (c *cluster) get() *v1alpha1.PostgresCluster {
	c.t.Helper()
	obj := &v1alpha1.PostgresCluster{}
	if err := c.api.Get(c.t.Context(), c.key(c.name), obj); err != nil {
		c.t.Fatal(err)
	}
	return obj
}

// ready waits until all instances stream, as of the present generation.
func (c *cluster) ready() {
	c.t.Helper()
	c.eventually(c.name+" is ready", 2*patience, func(context.Context) (bool, string) {
		s := c.get()
		ready := apimeta.FindStatusCondition(s.Status.Conditions, "Ready")
		if ready == nil {
			return false, "no condition"
		}
		return ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == s.Generation, ready.Reason + ": " + ready.Message
	})
}

// dsn is that of an application, with the Service's address.
func (c *cluster) dsn() string {
	c.t.Helper()
	var secret corev1.Secret
	var service corev1.Service
	if err := c.api.Get(c.t.Context(), c.key(c.name), &secret); err != nil {
		c.t.Fatal(err)
	}
	if err := c.api.Get(c.t.Context(), c.key(c.name+"-rw"), &service); err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprintf("host=%s user=app password=%s dbname=app", service.Spec.ClusterIP, secret.Data["password"])
}

func (c *cluster) query(dsn, sql string, args ...any) (first string) {
	c.t.Helper()
	c.eventually(sql, patience, func(ctx context.Context) (bool, string) {
		conn, err := dial(ctx, 0, dsn)
		if err != nil {
			return false, err.Error()
		}
		defer conn.Close(ctx)
		rows, err := conn.Query(ctx, sql, args...)
		if err != nil {
			return false, err.Error()
		}
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if len(list) > 0 {
			first = list[0]
		}
		return err == nil, fmt.Sprint(err)
	})
	return first
}

// disturb does something to the primary, and measures how long nothing is acknowledged.
func (c *cluster) disturb(l *load, what string, do func(primary string)) {
	c.t.Helper()
	l.since()
	primary := c.get().Status.CurrentPrimary
	do(primary)
	done := time.Now()
	c.eventually(what+": writes are acknowledged again", patience, func(context.Context) (bool, string) {
		if time.Since(done) < 3*time.Second { // what was on its way may still arrive
			return false, "too early"
		}
		return l.after(time.Now().Add(-300 * time.Millisecond)), "none"
	})
	gap := l.since().Round(100 * time.Millisecond)
	s := c.get().Status
	c.t.Logf("%s: nothing was acknowledged for %s; the primary was %s and is %s, timeline %d", what, gap, primary,
		s.CurrentPrimary, s.Timeline)
	if gap > back {
		c.t.Errorf("%s: nothing was acknowledged for %s, more than %s", what, gap, back)
	}
}

// fenced checks that the primary that was cut off has ended by itself: it does not answer from its own node either.
func (c *cluster) fenced() {
	c.t.Helper()
	pod := &corev1.Pod{}
	if err := c.api.Get(c.t.Context(), c.key("shop-1"), pod); err != nil {
		c.t.Fatal(err)
	}
	conn, err := dialer(1)(c.t.Context(), "tcp", pod.Status.PodIP+":5432")
	if err == nil {
		conn.Close()
		c.t.Error("the primary that was cut off still takes connections")
	} else if !strings.Contains(err.Error(), "refused") {
		c.t.Errorf("the primary that was cut off: %v, want that it refuses", err)
	}
}

// killFirst kills the process of a pod that its container began with.
func (c *cluster) killFirst(pod string) {
	c.t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !slices.Contains(strings.Split(string(text), "\x00"), "POD="+pod) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/environ", &pid); err == nil && strings.Contains(string(cmdline), "instance\x00") {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				c.t.Fatal(err)
			}
			return
		}
	}
	c.t.Fatalf("no process of %s was found", pod)
}

// rolls changes a setting that needs a restart: each instance restarts once, and the primary hands over once.
func (c *cluster) rolls(dsn string) {
	c.t.Helper()
	before := c.get()
	c.kubectl(`patch pgc %s --type=merge -p '{"spec":{"parameters":{"max_connections":"120"},"storageSize":"2Gi"}}'`, c.name)
	l := write(c.t.Context(), dsn, 1<<40, 2)
	defer l.end()
	c.eventually("all instances have restarted", 2*patience, func(context.Context) (bool, string) {
		s := c.get().Status
		cond := apimeta.FindStatusCondition(s.Conditions, "UpToDate")
		return s.CurrentPrimary != before.Status.CurrentPrimary && cond.Status == metav1.ConditionTrue, cond.Message
	})
	c.ready()
	after := c.get()
	promotions, elections := after.Status.Timeline-before.Status.Timeline, after.Status.Epoch-before.Status.Epoch
	if promotions != 1 || elections != 0 {
		c.t.Fatalf("%d promotions, %d elections; want one promotion, without an election", promotions, elections)
	}
	if got := c.query(dsn, "show max_connections"); got != "120" {
		c.t.Errorf("max_connections is %s, want 120", got)
	}
	gap := l.since().Round(100 * time.Millisecond)
	c.t.Logf("rolling update: nothing was acknowledged for %s at most; %d promotions, %d elections", gap, promotions, elections)
	if gap > back {
		c.t.Errorf("rolling update: nothing was acknowledged for %s, more than %s", gap, back)
	}
	var claim corev1.PersistentVolumeClaim
	if err := c.api.Get(c.t.Context(), c.key(c.name+"-1"), &claim); err != nil || claim.Spec.Resources.Requests.Storage().String() != "2Gi" {
		c.t.Errorf("the claim asks for %s, want 2Gi: %v", claim.Spec.Resources.Requests.Storage(), err)
	}
}

// restores makes a backup, writes on both sides of a moment, and has another cluster begin with that moment.
func (c *cluster) restores(dsn string) {
	c.t.Helper()
	backup := &v1alpha1.PostgresBackup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "now"},
		Spec: v1alpha1.PostgresBackupSpec{Cluster: c.name}}
	if err := c.api.Create(c.t.Context(), backup); err != nil {
		c.t.Fatal(err)
	}
	c.eventually("the backup is made", patience, func(ctx context.Context) (bool, string) {
		err := c.api.Get(ctx, c.key("now"), backup)
		return backup.Status.Phase == "Completed", fmt.Sprint(backup.Status, err)
	})
	c.query(dsn, "create table notes (text text)")
	c.query(dsn, "insert into notes values ('before')")
	pause(1100 * time.Millisecond)
	at, err := time.Parse(time.RFC3339Nano, c.query(dsn, `select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`))
	if err != nil {
		c.t.Fatal(err)
	}
	at = at.Add(time.Second) // the next whole second
	pause(time.Until(at.Add(100 * time.Millisecond)))
	c.query(dsn, "insert into notes values ('after')")
	// PostgreSQL ends a segment by itself after archive_timeout, 30 s, and then the moment is in the archive.
	old := &cluster{machine: c.machine, name: "then"}
	old.create(v1alpha1.PostgresClusterSpec{EngineVersion: "15", StorageSize: resource.MustParse("1Gi"), DeletionPolicy: "Delete",
		RestoreFrom: &v1alpha1.RestoreFrom{Cluster: c.name, TargetTime: &metav1.MicroTime{Time: at}}})
	old.ready()
	if got := old.query(old.dsn(), "select string_agg(text, ' ') from notes"); got != "before" {
		c.t.Errorf("the restored cluster has the notes %q, want those before the moment", got)
	}
	rows := c.query(dsn, "select count(*)::text from acked")
	if got := old.query(old.dsn(), "select count(*)::text from acked"); got != rows {
		c.t.Errorf("the restored cluster has %s rows, want %s", got, rows)
	}
}

// removed deletes the clusters: nothing is left.
func (c *cluster) removed() {
	c.t.Helper()
	c.kubectl("delete pgc --all --timeout=60s")
	c.eventually("nothing is left", patience, func(ctx context.Context) (bool, string) {
		var pods corev1.PodList
		var claims corev1.PersistentVolumeClaimList
		var secrets corev1.SecretList
		mine := []client.ListOption{client.InNamespace("default"), client.HasLabels{v1alpha1.ClusterLabel}}
		for _, list := range []client.ObjectList{&pods, &claims, &secrets} {
			if err := c.api.List(ctx, list, mine...); err != nil {
				return false, err.Error()
			}
		}
		return len(pods.Items)+len(claims.Items)+len(secrets.Items) == 0,
			fmt.Sprintf("%d pods, %d claims, %d secrets", len(pods.Items), len(claims.Items), len(secrets.Items))
	})
}
