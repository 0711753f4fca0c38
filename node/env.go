package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/node/volume"
	"github.com/kloop-dev/kloop/resource"
)

// A resolver finds the values of a container's variables.
type resolver struct{ *common }

// environment resolves the container's variables, in order: services, then envFrom, then env, later ones winning
// and able to use earlier ones as $(NAME). volumes are the host paths of the pod's volumes.
func (r *resolver) environment(ctx context.Context, read resource.Reader, pod *corev1.Pod, c *corev1.Container,
	box *sandbox, volumes map[string]string) ([]corev1.EnvVar, error) {
	e := &environment{vars: map[string]string{}}
	for k, v := range r.serviceEnv(read, pod) {
		e.vars[k] = v
	}
	e.order = slices.Sorted(maps.Keys(e.vars))
	for _, from := range c.EnvFrom {
		data, err := r.envFrom(ctx, pod, from)
		if err != nil {
			return nil, err
		}
		for _, k := range slices.Sorted(maps.Keys(data)) {
			if name := from.Prefix + k; len(validation.IsRelaxedEnvVarName(name)) == 0 {
				e.set(name, data[k])
			}
		}
	}
	for _, v := range c.Env {
		value := expand(v.Value, e.list())
		if v.ValueFrom != nil {
			var found bool
			var err error
			if v.ValueFrom.FileKeyRef != nil {
				value, found, err = fromFile(v.ValueFrom.FileKeyRef, volumes)
			} else {
				value, found, err = r.valueFrom(ctx, pod, c, v.ValueFrom, box)
			}
			if err != nil {
				return nil, err
			} else if !found {
				continue
			}
		}
		e.set(v.Name, value)
	}
	return e.list(), nil
}

type environment struct {
	vars  map[string]string
	order []string
}

func (e *environment) set(name, value string) {
	if _, have := e.vars[name]; !have {
		e.order = append(e.order, name)
	}
	e.vars[name] = value
}

func (e *environment) list() (out []corev1.EnvVar) {
	for _, n := range e.order {
		out = append(out, corev1.EnvVar{Name: n, Value: e.vars[n]})
	}
	return out
}

func (r *resolver) envFrom(ctx context.Context, pod *corev1.Pod, from corev1.EnvFromSource) (map[string]string, error) {
	switch {
	case from.ConfigMapRef != nil:
		return r.configMap(ctx, pod.Namespace, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
	case from.SecretRef != nil:
		return r.secret(ctx, pod.Namespace, from.SecretRef.Name, from.SecretRef.Optional)
	}
	return nil, nil
}

// configMap is the data of a ConfigMap; of an optional one that is not there, nothing.
func (r *resolver) configMap(ctx context.Context, ns, name string, optional *bool) (map[string]string, error) {
	cm, err := client.Find(ctx, r.cfg.Client, kinds.ConfigMaps, ns, name)
	if err != nil {
		return nil, unfound("configmap", name, err, optional)
	}
	return cm.Data, nil
}

// secret is the data of a Secret; of an optional one that is not there, nothing.
func (r *resolver) secret(ctx context.Context, ns, name string, optional *bool) (map[string]string, error) {
	s, err := client.Find(ctx, r.cfg.Client, kinds.Secrets, ns, name)
	if err != nil {
		return nil, unfound("secret", name, err, optional)
	}
	data := map[string]string{}
	for k, v := range s.Data {
		data[k] = string(v)
	}
	return data, nil
}

// unfound words the error of what is not there as the kubelet does; what is optional may be missing.
func unfound(kind, name string, err error, optional *bool) error {
	switch {
	case !apierrors.IsNotFound(err):
		return err
	case is(optional):
		return nil
	}
	return fmt.Errorf("%s %q not found", kind, name)
}

// valueFrom resolves a reference; found is false for optional ones that are not there.
func (r *resolver) valueFrom(ctx context.Context, pod *corev1.Pod, c *corev1.Container, from *corev1.EnvVarSource,
	box *sandbox) (value string, found bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = r.fieldValue(pod, from.FieldRef.FieldPath, box)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err = r.resourceValue(pod, c, from.ResourceFieldRef)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		data, err := r.configMap(ctx, pod.Namespace, ref.Name, ref.Optional)
		if err != nil {
			return "", false, err
		}
		if v, ok := data[ref.Key]; ok {
			return v, true, nil
		}
		if is(ref.Optional) {
			return "", false, nil
		}
		return "", false, fmt.Errorf("couldn't find key %s in ConfigMap %s/%s", ref.Key, pod.Namespace, ref.Name)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		data, err := r.secret(ctx, pod.Namespace, ref.Name, ref.Optional)
		if err != nil {
			return "", false, err
		}
		if v, ok := data[ref.Key]; ok {
			return v, true, nil
		}
		if is(ref.Optional) {
			return "", false, nil
		}
		return "", false, fmt.Errorf("couldn't find key %s in Secret %s/%s", ref.Key, pod.Namespace, ref.Name)
	}
	return "", false, fmt.Errorf("this source of a variable is not supported")
}

// fieldValue is the downward API for variables.
func (r *resolver) fieldValue(pod *corev1.Pod, path string, box *sandbox) (string, error) {
	for _, m := range []struct {
		prefix string
		values map[string]string
	}{{"metadata.labels['", pod.Labels}, {"metadata.annotations['", pod.Annotations}} {
		if key, ok := strings.CutPrefix(path, m.prefix); ok {
			return m.values[strings.TrimSuffix(key, "']")], nil
		}
	}
	ips := []string{}
	switch {
	case pod.Spec.HostNetwork:
		ips = r.cfg.hostIPs()
	case box != nil:
		ips = box.ips
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return r.cfg.Address.String(), nil
	case "status.hostIPs":
		return strings.Join(r.cfg.hostIPs(), ","), nil
	case "status.podIP":
		return strings.Join(ips[:min(1, len(ips))], ""), nil
	case "status.podIPs":
		return strings.Join(ips, ","), nil
	}
	return "", fmt.Errorf("field %q is not supported in variables", path)
}

// resourceValue is a request or limit, in units of the divisor and rounded up. A limit that is not set counts as what the
// node has.
func (r *resolver) resourceValue(pod *corev1.Pod, c *corev1.Container, ref *corev1.ResourceFieldSelector) (string, error) {
	if ref.ContainerName != "" {
		if c = specOf(pod, ref.ContainerName); c == nil {
			return "", fmt.Errorf("container %s not found", ref.ContainerName)
		}
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	res := corev1.ResourceName(name)
	q := c.Resources.Requests[res]
	if kind == "limits" {
		var set bool
		if q, set = volume.Limit(pod, c, res); !set {
			q = r.allocatable()[res]
		}
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = apiresource.MustParse("1")
	}
	if res == corev1.ResourceCPU {
		return strconv.FormatInt(ceil(q.MilliValue(), divisor.MilliValue()), 10), nil
	}
	return strconv.FormatInt(ceil(q.Value(), divisor.Value()), 10), nil
}

func ceil(n, by int64) int64 {
	if by <= 0 {
		return n
	}
	return (n + by - 1) / by
}

// serviceEnv are the variables that tell a pod of the services of its namespace, and of the API server.
func (r *resolver) serviceEnv(read resource.Reader, pod *corev1.Pod) map[string]string {
	env := map[string]string{}
	add := func(s *corev1.Service) {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone || len(s.Spec.Ports) == 0 {
			return
		}
		serviceVars(env, s)
	}
	if s := resource.Get(read, kinds.Services, "default", "kubernetes"); s != nil {
		add(s)
	}
	if pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks {
		for _, s := range resource.List(read, kinds.Services, pod.Namespace) {
			add(s)
		}
	}
	return env
}

func serviceVars(env map[string]string, s *corev1.Service) {
	name := strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
	ip := s.Spec.ClusterIP
	env[name+"_SERVICE_HOST"] = ip
	env[name+"_SERVICE_PORT"] = strconv.Itoa(int(s.Spec.Ports[0].Port))
	for i, p := range s.Spec.Ports {
		port, proto := strconv.Itoa(int(p.Port)), strings.ToUpper(string(p.Protocol))
		if p.Name != "" {
			env[name+"_SERVICE_PORT_"+strings.ToUpper(strings.ReplaceAll(p.Name, "-", "_"))] = port
		}
		url := strings.ToLower(proto) + "://" + joinHostPort(ip, port)
		if i == 0 {
			env[name+"_PORT"] = url
		}
		prefix := name + "_PORT_" + port + "_" + proto
		env[prefix], env[prefix+"_PROTO"], env[prefix+"_PORT"], env[prefix+"_ADDR"] = url, strings.ToLower(proto), port, ip
	}
}

func joinHostPort(ip, port string) string {
	if strings.Contains(ip, ":") {
		return "[" + ip + "]:" + port
	}
	return ip + ":" + port
}

// expand replaces $(NAME) by the variable's value; unknown names stay, $$ is a dollar.
func expand(s string, env []corev1.EnvVar) string {
	return expandBy(s, func(name string) (string, bool) { return valueOf(env, name) })
}

func valueOf(env []corev1.EnvVar, name string) (value string, known bool) {
	at := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == name })
	if at < 0 {
		return "", false
	}
	return env[at].Value, true
}

// expandBy is expand with the values from elsewhere.
func expandBy(s string, value func(name string) (string, bool)) string {
	if !strings.Contains(s, "$") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		switch s[i+1] {
		case '$':
			b.WriteByte('$')
			i++
		case '(':
			end, v, known := strings.IndexByte(s[i:], ')'), "", false
			if end > 0 {
				v, known = value(s[i+2 : i+end])
			}
			if !known {
				b.WriteByte('$')
				continue
			}
			b.WriteString(v)
			i += end
		default:
			b.WriteByte('$')
		}
	}
	return b.String()
}

// subPath is the part of a volume that is mounted. A variable in it that is missing or empty is a mistake: what remains would be another
// part, or the whole volume.
func subPath(m *corev1.VolumeMount, env []corev1.EnvVar) (string, error) {
	if m.SubPathExpr == "" {
		return m.SubPath, nil
	}
	missing := map[string]bool{}
	sub := expandBy(m.SubPathExpr, func(name string) (string, bool) {
		v, _ := valueOf(env, name)
		if v == "" {
			missing[name] = true
		}
		return v, true
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("missing value for %s", strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
	if strings.HasPrefix(sub, "/") {
		return "", fmt.Errorf("error SubPath `%s` must not be an absolute path", sub)
	}
	if slices.Contains(strings.Split(sub, "/"), "..") {
		return "", fmt.Errorf("unable to provision SubPath `%s`: must not contain '..'", sub)
	}
	return sub, nil
}

func expandAll(list []string, env []corev1.EnvVar) (out []string) {
	for _, s := range list {
		out = append(out, expand(s, env))
	}
	return out
}
