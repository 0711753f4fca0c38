package simtest

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// A User does what a program says. Nothing goes wrong with its own requests; what fails all the same ends the run with an error. It is for
// one goroutine.
type User struct {
	ctrlclient.Client // for what the methods here don't do
	w                 *World
	deadline          time.Time
}

// userError carries what went wrong out of a program.
type userError struct{ err error }

func (u *User) must(err error, what string, obj ctrlclient.Object) {
	if err != nil {
		panic(userError{fmt.Errorf("the user can't %s %T %s: %w", what, obj, obj.GetName(), err)})
	}
}

// Create creates an object. The object stays as it is, so that a program can be run again.
func (u *User) Create(obj ctrlclient.Object) {
	u.must(u.Client.Create(u.w.door.ctx, obj.DeepCopyObject().(ctrlclient.Object)), "create", obj)
	u.w.step()
}

// Change reads the object of obj's kind, namespace and name into a copy, has it changed, and writes it, again if somebody was faster.
func Change[T ctrlclient.Object](u *User, obj T, change func(T)) {
	var err error
	for range 100 {
		now := obj.DeepCopyObject().(T)
		if err = u.Get(u.w.door.ctx, ctrlclient.ObjectKeyFromObject(obj), now); err == nil {
			change(now)
			err = u.Update(u.w.door.ctx, now)
		}
		if !apierrors.IsConflict(err) {
			break
		}
	}
	u.must(err, "change", obj)
	u.w.step()
}

// Delete deletes an object, in the background.
func (u *User) Delete(obj ctrlclient.Object) {
	u.must(u.Client.Delete(u.w.door.ctx, obj.DeepCopyObject().(ctrlclient.Object)), "delete", obj)
	u.w.step()
}

// Gone waits until an object is gone.
func (u *User) Gone(obj ctrlclient.Object) {
	u.Until("is gone: "+obj.GetName(), func() bool {
		return apierrors.IsNotFound(u.Get(u.w.door.ctx, ctrlclient.ObjectKeyFromObject(obj), obj.DeepCopyObject().(ctrlclient.Object)))
	})
}

// Until waits, in simulated time, for a condition. It is asked each second.
func (u *User) Until(what string, ok func() bool) {
	for !ok() {
		if !sleep(u.w.door.ctx, time.Second) || time.Now().After(u.deadline) {
			panic(userError{fmt.Errorf("the user waited in vain until it %s", what)})
		}
	}
	u.w.step()
}

// Settle waits until nobody has written anything for a while.
func (u *User) Settle() {
	u.w.settle(u.w.c.Quiet)
	u.w.step()
}

// Wait lets simulated time pass.
func (u *User) Wait(d time.Duration) {
	sleep(u.w.door.ctx, d)
	u.w.step()
}

// settle waits until nobody has written for a while and no fault lasts; it gives up after a while.
func (w *World) settle(quiet time.Duration) {
	for end := time.Now().Add(longest / 2); time.Now().Before(end); {
		w.door.turns.settle()
		w.run.mu.Lock()
		last := w.run.trouble
		w.run.mu.Unlock()
		if wrote := w.run.seen.last(); wrote.After(last) {
			last = wrote
		}
		if !time.Now().Before(last.Add(quiet)) {
			return
		}
		if !sleep(w.door.ctx, time.Until(last.Add(quiet))) {
			return
		}
	}
}

// play runs the program.
func (u *User) play(program func(*User)) (err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case userError:
			err = e.err
		default:
			panic(e)
		}
	}()
	u.deadline = time.Now().Add(longest)
	program(u)
	return nil
}

// prepare writes the definitions and what is there from the start.
func (w *World) prepare(ctx context.Context, c ctrlclient.Client) error {
	if w.c.CRDs != nil {
		if err := fs.WalkDir(w.c.CRDs, ".", func(name string, d fs.DirEntry, err error) error {
			if ext := path.Ext(name); err != nil || d.IsDir() || ext != ".yaml" && ext != ".yml" {
				return err
			}
			text, err := fs.ReadFile(w.c.CRDs, name)
			if err != nil {
				return err
			}
			obj := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(text, &obj.Object); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := c.Create(ctx, obj); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		}); err != nil {
			return err
		}
		sleep(ctx, 5*time.Second) // until they are served
	}
	for _, obj := range w.c.Objects {
		if err := c.Create(ctx, obj.DeepCopyObject().(ctrlclient.Object)); err != nil {
			return fmt.Errorf("create %s: %w", obj.GetName(), err)
		}
	}
	return nil
}
