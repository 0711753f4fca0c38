package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Post sends a JSON document and returns the answer, of at most limit bytes. It ends with ctx, whose deadline the
// webhook receives as the parameter timeout. An answer that is no success is a *apierrors.StatusError; all other
// errors name the URL.
func (c *Client) Post(ctx context.Context, body []byte, limit int64) ([]byte, error) {
	u := c.url
	if end, ok := ctx.Deadline(); ok {
		if left := time.Until(end); left > 0 {
			q := u.Query()
			q.Set("timeout", strconv.FormatInt(int64((left+time.Second-1)/time.Second), 10)+"s")
			u.RawQuery = q.Encode()
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, */*")
	req.Header.Set("User-Agent", "kube-apiserver-admission")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer of %s: %w", c.url.Redacted(), err)
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("the answer of %s is longer than %d bytes", c.url.Redacted(), limit)
	case resp.StatusCode < http.StatusOK || resp.StatusCode > http.StatusPartialContent:
		return nil, refused(resp, data)
	}
	return data, nil
}

// refused says what an answer means that is no success.
func refused(resp *http.Response, data []byte) error {
	message := "unknown"
	if typ, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err == nil && strings.HasPrefix(typ, "text/") {
		message = strings.TrimSpace(string(data[:min(len(data), 1024)]))
	}
	return apierrors.NewGenericServerResponse(resp.StatusCode, "post", schema.GroupResource{}, "", message, 0, true)
}
