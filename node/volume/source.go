package volume

import (
	"context"
	"errors"
	"io/fs"

	corev1 "k8s.io/api/core/v1"

	"github.com/kloop-dev/kloop/kinds"
)

func (f *filling) configMap(ctx context.Context, name string, items []corev1.KeyToPath, mode fs.FileMode, optional *bool) error {
	cm, err := read(ctx, f.m, kinds.ConfigMaps, f.pod.Namespace, name)
	if absent(err, optional) {
		return nil
	}
	if err != nil {
		return err
	}
	data := map[string][]byte{}
	for k, v := range cm.Data {
		data[k] = []byte(v)
	}
	for k, v := range cm.BinaryData {
		data[k] = v
	}
	return f.put("configmap references non-existent config key: ", data, items, mode, optional)
}

func (f *filling) secret(ctx context.Context, name string, items []corev1.KeyToPath, mode fs.FileMode, optional *bool) error {
	s, err := read(ctx, f.m, kinds.Secrets, f.pod.Namespace, name)
	if absent(err, optional) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.put("references non-existent secret key: ", s.Data, items, mode, optional)
}

// absent says that something is missing and may be.
func absent(err error, optional *bool) bool {
	var m missing
	return optional != nil && *optional && errors.As(err, &m)
}

// put adds the items, or everything when there are none. lacks is the text of the error before the name of a key that is not there.
func (f *filling) put(lacks string, data map[string][]byte, items []corev1.KeyToPath, mode fs.FileMode, optional *bool) error {
	if len(items) == 0 {
		for k, v := range data {
			f.files[k] = file{data: v, mode: mode, user: -1}
		}
		return nil
	}
	for _, it := range items {
		v, ok := data[it.Key]
		if !ok {
			if optional != nil && *optional {
				continue
			}
			return errors.New(lacks + it.Key)
		}
		m := mode
		if it.Mode != nil {
			m = modeOf(it.Mode)
		}
		f.files[it.Path] = file{data: v, mode: m, user: -1}
	}
	return nil
}
