package stream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/server/httpapi/reply"
)

// log streams the log of a container from the agent of its node.
func (c *connection) log() error {
	if !routableLog(c.r.Header.Get("Accept")) {
		return reply.Unrouted("text/plain, " + reply.Served(true))
	}
	opts, err := logOptions(c.r.URL.Query(), c.req.Name, c.h.cfg.Kinds.Features().On("PodLogsQuerySplitStreams"))
	if err != nil {
		return err
	}
	pod, err := c.pod()
	if err != nil {
		return err
	}
	name, err := container(pod, opts.Container)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" { // not scheduled: there is nothing yet
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	loc, rt, err := c.agent(c.r.Context(), pod.Spec.NodeName, "/containerLogs/"+pod.Namespace+"/"+pod.Name+"/"+name, logParams(opts))
	if err != nil {
		return err
	}
	return c.copyLog(loc, rt, opts.Follow)
}

// copyLog fetches the log and passes it on as it comes.
func (c *connection) copyLog(loc *url.URL, rt http.RoundTripper, follow bool) error {
	req, err := http.NewRequestWithContext(c.r.Context(), http.MethodGet, loc.String(), nil)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("get %q: %w", loc, err))
	}
	defer resp.Body.Close()
	if err := agentError(c, resp); err != nil {
		return err
	}
	if IsWebSocket(c.r) {
		c.logSocket(resp.Body)
		return nil
	}
	c.w.Header().Set("Content-Type", "text/plain")
	c.w.WriteHeader(http.StatusOK)
	var to io.Writer = c.w
	if follow {
		to = flusher{c.w, http.NewResponseController(c.w)}
		_ = to.(flusher).rc.Flush()
	}
	_, _ = io.Copy(to, resp.Body)
	return nil
}

// flusher sends every write on at once.
type flusher struct {
	w  io.Writer
	rc *http.ResponseController
}

func (f flusher) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if err == nil {
		err = f.rc.Flush()
	}
	return n, err
}

// agentError turns a node agent's refusal into an error of the API.
func agentError(c *connection, resp *http.Response) error {
	if resp.StatusCode >= 200 && resp.StatusCode <= 206 {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 2048))
	switch resp.StatusCode {
	case http.StatusInternalServerError:
		return apierrors.NewInternalError(errors.New(string(text)))
	case http.StatusBadRequest:
		return apierrors.NewBadRequest(string(text))
	}
	return apierrors.NewGenericServerResponse(resp.StatusCode, "", c.gr(), c.req.Name, string(text), 0, false)
}

func routableLog(header string) bool {
	for _, cl := range reply.ParseAccept(header) {
		if cl.Type == "text" && (cl.Sub == "plain" || cl.Sub == "*") {
			return true
		}
	}
	return reply.Routable(header, true)
}

// logOptions reads PodLogOptions for the pod. split says that they may name one of the two streams.
func logOptions(q url.Values, pod string, split bool) (*corev1.PodLogOptions, error) {
	o := &corev1.PodLogOptions{Container: q.Get("container"), Follow: truth(q, "follow"), Previous: truth(q, "previous"),
		Timestamps: truth(q, "timestamps"), InsecureSkipTLSVerifyBackend: truth(q, "insecureSkipTLSVerifyBackend")}
	var err error
	for key, to := range map[string]**int64{"sinceSeconds": &o.SinceSeconds, "tailLines": &o.TailLines, "limitBytes": &o.LimitBytes} {
		if *to, err = number(q, key); err != nil {
			return nil, err
		}
	}
	if t := q.Get("sinceTime"); t != "" {
		when, err := time.Parse(time.RFC3339, t)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		o.SinceTime = &metav1.Time{Time: when}
	}
	if s := q.Get("stream"); s != "" {
		o.Stream = &s
	}
	return o, checkLog(o, pod, split)
}

func truth(q url.Values, key string) bool {
	v := q.Get(key)
	return v != "" && v != "false" && v != "0"
}

func number(q url.Values, key string) (*int64, error) {
	v := q.Get(key)
	if v == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return &n, nil
}

func checkLog(o *corev1.PodLogOptions, pod string, split bool) error {
	var errs field.ErrorList
	if o.TailLines != nil && *o.TailLines < 0 {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), *o.TailLines, "must be greater than or equal to 0"))
	}
	if o.LimitBytes != nil && *o.LimitBytes < 1 {
		errs = append(errs, field.Invalid(field.NewPath("limitBytes"), *o.LimitBytes, "must be greater than 0"))
	}
	switch {
	case o.SinceSeconds != nil && o.SinceTime != nil:
		errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	case o.SinceSeconds != nil && *o.SinceSeconds < 1:
		errs = append(errs, field.Invalid(field.NewPath("sinceSeconds"), *o.SinceSeconds, "must be greater than 0"))
	}
	if o.Stream != nil && !split {
		errs = append(errs, field.Forbidden(field.NewPath("stream"), "may not be specified"))
	} else if o.Stream != nil && *o.Stream != corev1.LogStreamAll {
		if *o.Stream != corev1.LogStreamStdout && *o.Stream != corev1.LogStreamStderr {
			errs = append(errs, field.NotSupported(field.NewPath("stream"), *o.Stream,
				[]string{corev1.LogStreamAll, corev1.LogStreamStdout, corev1.LogStreamStderr}))
		}
		if o.TailLines != nil {
			errs = append(errs, field.Forbidden(field.NewPath(""), "`tailLines` and specific `stream` are mutually exclusive for now"))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("PodLogOptions").GroupKind(), pod, errs)
}

// logParams are the options as the agent takes them.
func logParams(o *corev1.PodLogOptions) url.Values {
	q := url.Values{}
	for key, on := range map[string]bool{"follow": o.Follow, "previous": o.Previous, "timestamps": o.Timestamps} {
		if on {
			q.Set(key, "true")
		}
	}
	for key, n := range map[string]*int64{"sinceSeconds": o.SinceSeconds, "tailLines": o.TailLines, "limitBytes": o.LimitBytes} {
		if n != nil {
			q.Set(key, strconv.FormatInt(*n, 10))
		}
	}
	if o.SinceTime != nil {
		q.Set("sinceTime", o.SinceTime.Format(time.RFC3339))
	}
	if o.Stream != nil && *o.Stream != corev1.LogStreamAll {
		q.Set("stream", *o.Stream)
	}
	return q
}
