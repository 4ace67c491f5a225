package ledger_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/ledger"
)

// childVariable makes the test binary a child that records until it is killed. Its value is the
// number of the first Record and the ledger's file.
const childVariable = "LEDGER_TEST_CHILD"

func TestMain(m *testing.M) {
	if job := os.Getenv(childVariable); job != "" {
		first, file, _ := strings.Cut(job, " ")
		if err := recordForever(first, file); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// recordForever prints the number of each Record after it has returned.
func recordForever(first, file string) error {
	ctx := context.Background()
	i, err := strconv.Atoi(first)
	if err != nil {
		return err
	}
	l, err := ledger.Open(ctx, "sqlite:"+file, ledger.Options{Pages: 8})
	if err != nil {
		return err
	}
	for ; ; i++ {
		if _, err := l.Record(ctx, time.Time{}, childChanges(i)); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

// childChanges returns the changes of Record number i of a child: a block, and for every other
// number also the removal of the previous block.
func childChanges(i int) []ledger.Change {
	changes := []ledger.Change{twoWay(i)}
	if i%2 == 1 {
		changes = append(changes, ledger.Change{Rows: twoWay(i - 1).Rows, Remove: true})
	}
	return changes
}

// child is a process that records, starting with number first.
type child struct {
	*exec.Cmd
	acknowledged *bufio.Scanner
	stderr       bytes.Buffer
}

func startChild(t *testing.T, first int, file string) *child {
	t.Helper()
	executable, err := os.Executable()
	must(t, err)
	c := &child{Cmd: exec.CommandContext(t.Context(), executable)}
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", childVariable, first, file))
	c.Stderr = &c.stderr
	stdout, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	c.acknowledged = bufio.NewScanner(stdout)
	return c
}

// next waits for the next acknowledged number. It returns false when there are no more.
func (c *child) next(t *testing.T) (number int, ok bool) {
	t.Helper()
	if !c.acknowledged.Scan() {
		return 0, false
	}
	number, err := strconv.Atoi(c.acknowledged.Text())
	must(t, err)
	return number, true
}

// kill ends the child with SIGKILL. It returns the last number that the child acknowledged,
// given the last known one.
func (c *child) kill(t *testing.T, last int) int {
	t.Helper()
	if err := c.Process.Kill(); err != nil {
		t.Error(err)
	}
	for {
		number, ok := c.next(t)
		if !ok {
			break
		}
		last = number
	}
	if err := c.Wait(); c.ProcessState.Exited() {
		t.Fatalf("the child exited: %v: %s", err, c.stderr.String())
	}
	return last
}

// TestKilled kills a process that records, again and again. Acknowledged records must exist. The
// record in flight must exist as a whole or not at all, and nothing else may exist.
func TestKilled(t *testing.T) {
	const rounds = 12
	file := filepath.Join(t.TempDir(), "ledger.db")
	random := rand.New(rand.NewPCG(4, 5))
	done := 0 // number of records in the ledger
	for range rounds {
		c := startChild(t, done, file)
		last := -1
		for range 1 + random.IntN(60) {
			number, ok := c.next(t)
			if !ok {
				c.kill(t, last)
				t.Fatalf("no more numbers after %d", last)
			}
			last = number
		}
		last = c.kill(t, last)
		l := open(t, "sqlite:"+file, ledger.Options{})
		if done = recorded(t, l); done != last+1 && done != last+2 {
			t.Fatalf("the ledger has %d records, %d were acknowledged", done, last+1)
		}
		shut(t, l)
	}
}

// recorded returns how many Records of the children explain the ledger's rows and sequences.
func recorded(t *testing.T, l *ledger.Ledger) int {
	t.Helper()
	rows, sequences := map[ledger.Row]bool{}, map[uint32]uint64{}
	var total uint64
	_, err := l.Changed(t.Context(), "", func(page uint32, s ledger.PageState) error {
		found, at, err := l.Snapshot(t.Context(), page)
		for _, r := range found {
			rows[r] = true
		}
		if at != s {
			t.Errorf("page %d at %v and at %v", page, s, at)
		}
		sequences[page] = s.Sequence
		total += s.Sequence
		return err
	})
	must(t, err)
	wantRows, wantSequences := map[ledger.Row]bool{}, map[uint32]uint64{}
	n := 0
	for ; total > 0; n++ {
		pages := map[uint32]bool{}
		for _, c := range childChanges(n) {
			for _, r := range c.Rows {
				r.Since = r.Since.UTC()
				wantRows[r] = true
				if c.Remove {
					delete(wantRows, r)
				}
				pages[l.Identity().PageIn(l.Identity().Pages, r.Hash)] = true
			}
		}
		for page := range pages {
			wantSequences[page]++
		}
		total -= min(total, uint64(len(pages)))
	}
	if !maps.Equal(rows, wantRows) || !maps.Equal(sequences, wantSequences) {
		t.Fatalf("after %d records: %d rows, sequences %v, want %d rows, %v",
			n, len(rows), sequences, len(wantRows), wantSequences)
	}
	return n
}

func TestInUse(t *testing.T) {
	directory := t.TempDir()
	file := filepath.Join(directory, "ledger.db")
	link, linked := filepath.Join(t.TempDir(), "link.db"), filepath.Join(t.TempDir(), "linked")
	must(t, errors.Join(os.Symlink(file, link), os.Symlink(directory, linked)))
	refused := func() {
		t.Helper()
		for _, name := range []string{file, link, filepath.Join(linked, "ledger.db")} {
			_, err := ledger.Open(t.Context(), "sqlite:"+name, ledger.Options{})
			if !errors.Is(err, ledger.ErrInUse) || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v, want ErrInUse naming %s", err, name)
			}
		}
	}
	l := open(t, "sqlite:"+file, ledger.Options{})
	refused()
	record(t, l, oneWay(1)) // the first ledger still works
	shut(t, l)

	shut(t, open(t, "sqlite:"+link, ledger.Options{}))
	must(t, os.Remove(file))
	c := startChild(t, 0, file)
	if _, ok := c.next(t); ok {
		refused()
	}
	c.kill(t, 0)
	shut(t, open(t, "sqlite:"+file, ledger.Options{}))
}
