package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
)

const (
	podName  = "p"
	patience = 90 * time.Second // for what a step waits for
	settled  = 2500 * time.Millisecond
)

// A cluster is one of the two.
type cluster struct {
	config *rest.Config
	client *kubernetes.Clientset
}

func newCluster(kubeconfig string) (*cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	return &cluster{config, client}, err
}

// A record has all that one cluster said to a scenario, in order.
type record []entry

type entry struct {
	label string
	lines []string
}

func (r *record) add(label string, lines ...string) { *r = append(*r, entry{label, lines}) }

// A play is a scenario under way on one cluster.
type play struct {
	*cluster
	scenario
	ns   string
	told record
}

// play plays a scenario in a namespace of its own.
func (c *cluster) play(ctx context.Context, s scenario) record {
	p := &play{cluster: c, scenario: s, ns: "n-" + s.Name}
	ctx, stop := context.WithTimeout(ctx, 6*time.Minute)
	defer stop()
	defer p.clear(context.WithoutCancel(ctx))
	if err := p.prepare(ctx); err != nil {
		return record{{"prepare", []string{c.config.Host, err.Error()}}} // always told: nothing was compared
	}
	seen := newWitness(ctx, c, p.ns)
	if s.Spec != nil {
		if err := p.create(ctx, s.pod().Object); err != nil {
			p.told.add("create", err.Error())
		}
	}
	for i, st := range s.Steps {
		label, lines := p.take(ctx, st)
		if label != "" {
			p.told.add(fmt.Sprintf("step %d %s", i+1, label), p.plain(lines)...)
		}
	}
	if s.Spec != nil {
		if n := len(s.Steps); n == 0 || !strings.HasSuffix(s.Steps[n-1].Until, "CrashLoopBackOff") { // that one lasts not long
			p.settle(ctx)
		}
		p.told.add("status", p.plain(p.status(ctx))...)
		if !s.Slack {
			for _, e := range seen.courses() {
				p.told.add(e.label, p.plain(e.lines)...)
			}
		}
		p.told.add("events", p.plain(p.events(ctx))...)
	}
	return p.told
}

func (p *play) prepare(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.ns}}
	if _, err := p.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, o := range p.Objects {
		if err := p.create(ctx, o); err != nil {
			return err
		}
	}
	for { // pods need the account and its trust
		_, err := p.client.CoreV1().ServiceAccounts(p.ns).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			_, err = p.client.CoreV1().ConfigMaps(p.ns).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		pause(ctx, 50*time.Millisecond)
	}
}

func (p *play) clear(ctx context.Context) {
	now := int64(0)
	_ = p.client.CoreV1().Pods(p.ns).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
	_ = p.client.CoreV1().Namespaces().Delete(ctx, p.ns, metav1.DeleteOptions{})
	_ = p.client.CoreV1().PersistentVolumes().Delete(ctx, p.ns, metav1.DeleteOptions{}) // scenarios name theirs so
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// create makes an object in the namespace, if its kind has any; its resource has the name of its kind in lower case, with an s.
func (p *play) create(ctx context.Context, o map[string]any) error {
	version, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	root := "/apis/" + version
	if version == "v1" {
		root = "/api/v1"
	}
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	data = bytes.ReplaceAll(data, []byte("{ns}"), []byte(p.ns))
	path := root + "/namespaces/" + p.ns + "/" + strings.ToLower(kind) + "s"
	if kind == "PersistentVolume" {
		path = root + "/persistentvolumes"
	}
	return p.client.CoreV1().RESTClient().Post().AbsPath(path).Body(data).SetHeader("Content-Type", "application/json").Do(ctx).Error()
}

// take does a step. What it tells is compared under the label.
func (p *play) take(ctx context.Context, s step) (label string, told []string) {
	switch {
	case s.Until != "":
		if err := p.until(ctx, s.Until); err != nil {
			return "until " + s.Until, []string{err.Error()}
		}
	case s.Sleep != "":
		d, err := time.ParseDuration(s.Sleep)
		if err != nil {
			return "sleep", []string{err.Error()}
		}
		pause(ctx, d)
	case s.Create != nil:
		return "create", oneError(p.create(ctx, s.Create))
	case s.Patch != nil:
		return "patch", oneError(p.patch(ctx, *s.Patch))
	case s.Delete != nil:
		o := metav1.DeleteOptions{}
		if *s.Delete >= 0 {
			o.GracePeriodSeconds = s.Delete
		}
		return "delete", oneError(p.client.CoreV1().Pods(p.ns).Delete(ctx, podName, o))
	case s.Exec != nil:
		return "exec " + strings.Join(s.Exec, " "), p.exec(ctx, s)
	case s.Attach != nil:
		return "attach", p.attach(ctx, s)
	case s.Logs != nil:
		return fmt.Sprint("logs ", s.Logs), p.get(ctx, "/api/v1/namespaces/"+p.ns+"/pods/"+podName+"/log", s.Logs, "text")
	case s.Get != "":
		path, query := cutQuery(strings.ReplaceAll(s.Get, "{ns}", p.ns))
		return "get " + s.Get, p.get(ctx, path, query, s.As)
	case s.Status:
		p.settle(ctx)
		return "status", p.status(ctx)
	}
	return "", nil
}

func oneError(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}

func (p *play) patch(ctx context.Context, change patch) error {
	data, err := json.Marshal(change.Body)
	if err != nil {
		return err
	}
	kind := map[string]types.PatchType{"": types.StrategicMergePatchType, "strategic": types.StrategicMergePatchType,
		"merge": types.MergePatchType, "json": types.JSONPatchType}[change.Type]
	var sub []string
	if change.Sub != "" {
		sub = []string{change.Sub}
	}
	_, err = p.client.CoreV1().Pods(p.ns).Patch(ctx, podName, kind, data, metav1.PatchOptions{}, sub...)
	return err
}

// get asks the API for a path.
func (p *play) get(ctx context.Context, path string, query map[string]string, as string) []string {
	req := p.client.CoreV1().RESTClient().Get().AbsPath(path)
	for k, v := range query {
		req = req.Param(k, v)
	}
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	data, err := req.DoRaw(ctx)
	if err != nil {
		return []string{"error: " + err.Error(), string(data)}
	}
	return digest(data, as)
}

func (p *play) exec(ctx context.Context, s step) []string {
	return p.stream(ctx, "exec", &corev1.PodExecOptions{Container: s.In, Command: s.Exec, Stdout: true, Stderr: true}, nil)
}

func (p *play) attach(ctx context.Context, s step) []string {
	o := &corev1.PodAttachOptions{Container: s.In, Stdin: true, Stdout: true, Stderr: true}
	return p.stream(ctx, "attach", o, strings.NewReader(strings.Join(s.Attach, "\n")+"\n"))
}

// stream runs something in the pod, or speaks to what runs.
func (p *play) stream(ctx context.Context, sub string, o runtime.Object, in io.Reader) []string {
	req := p.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.ns).Name(podName).SubResource(sub)
	exec, err := remotecommand.NewSPDYExecutor(p.config, "POST", req.VersionedParams(o, scheme.ParameterCodec).URL())
	if err != nil {
		return oneError(err)
	}
	ctx, stop := context.WithTimeout(ctx, 15*time.Second)
	defer stop()
	var out, errs bytes.Buffer
	err = exec.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: &out, Stderr: &errs})
	lines := split(out.String())
	for _, l := range split(errs.String()) {
		lines = append(lines, "stderr: "+l)
	}
	if err != nil {
		lines = append(lines, "error: "+err.Error())
	}
	return lines
}

func split(text string) []string {
	if text = strings.TrimSuffix(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func (p *play) read(ctx context.Context) (*corev1.Pod, error) {
	return p.client.CoreV1().Pods(p.ns).Get(ctx, podName, metav1.GetOptions{})
}

// settle waits until the pod has not changed for a while.
func (p *play) settle(ctx context.Context) {
	last, since := "", time.Now()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && ctx.Err() == nil; pause(ctx, 250*time.Millisecond) {
		pod, err := p.read(ctx)
		if err != nil {
			return
		}
		if pod.ResourceVersion != last {
			last, since = pod.ResourceVersion, time.Now()
		}
		if time.Since(since) > settled {
			return
		}
	}
}
