package opspage_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

// patience is the upper bound for an awaited event on an overloaded machine. The reference of the
// API has taken more than 30 s to show, beside everything else that continuous integration runs.
const patience = 3 * time.Minute

var errNotYet = errors.New("it is not so yet")

// chromium is a running browser.
type chromium struct{ ctx context.Context }

// start starts Chromium, for all subtests of a test.
func start(t *testing.T) *chromium {
	t.Helper()
	program := servertest.FindProgram(t, "CHROMIUM", "chromium", "chromium-browser", "google-chrome")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // the sandbox does not work as root
	}
	allocated, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return &chromium{ctx}
}

// look is how a tab shows pages.
type look struct {
	width int64 // CSS pixels; default 1280
	dark  bool
}

// tab is a tab of the browser, and the errors in it. Its methods fail the test.
type tab struct {
	t      *testing.T
	ctx    context.Context
	server string // URL

	mu       sync.Mutex
	asked    []*network.Request
	troubles []string // errors on the console, without those for calls that the service refused
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens the operations page of the service at server. At the end, the test fails if the page
// has asked another host, or if the console has errors.
func open(t *testing.T, browser *chromium, server, hash string, l look) *tab {
	t.Helper()
	return visit(t, browser, server, "/ops"+hash, l)
}

// visit does the same as open for any page of the service.
func visit(t *testing.T, browser *chromium, server, path string, l look) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser.ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, server: server}
	if err := chromedp.Listen(ctx, b.heard); err != nil { // opens the tab
		t.Fatalf("open a tab: %v", err)
	}
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	call(b, network.Enable, network.EnableParams{})
	call(b, log.Enable, cdp.Empty{})
	call(b, runtime.Enable, cdp.Empty{})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	call(b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "UTC"})
	width := cmp.Or(l.width, 1280)
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 640,
	})
	do(b, chromedp.Navigate(server+path))
	t.Cleanup(func() { b.check() })
	return b
}

func (b *tab) heard(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request)
	case *runtime.EventExceptionThrown:
		b.troubles = append(b.troubles, fmt.Sprintf("%s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			b.troubles = append(b.troubles, fmt.Sprintf("console: %s", e.Args[0].Description))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			b.troubles = append(b.troubles, fmt.Sprintf("%s: %s", e.Entry.Source, e.Entry.Text))
		}
	}
}

// check reports errors that no page may cause.
func (b *tab) check() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, trouble := range b.troubles {
		b.t.Errorf("the browser reports: %s", trouble)
	}
	if len(b.asked) == 0 {
		b.t.Error("no request of the browser was recorded")
	}
	for _, r := range b.asked {
		if u, err := url.Parse(r.URL); err != nil || u.Scheme != "data" && !strings.HasPrefix(r.URL, b.server+"/") {
			b.t.Errorf("the page asked for %s", r.URL)
		}
	}
}

// do runs an action, and returns its value.
func do[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("in the browser: %v", err)
	}
	return v
}

// call runs a command of the browser's protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatalf("%s: %v", command.Method, err)
	}
}

// value returns the value of a JavaScript expression.
func value[T any](b *tab, expression string) T {
	b.t.Helper()
	return do(b, chromedp.Evaluate[T](expression))
}

// until waits until the JavaScript expression is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	err := servertest.Await(ctx, expression, func(ctx context.Context) error {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && !is {
			return errNotYet
		}
		return err
	})
	if err != nil {
		b.t.Fatalf("%v; the page shows:\n%s", err, value[string](b, "document.body.innerText"))
	}
}

// settled waits until the view in the address has been filled at least once.
func (b *tab) settled() {
	b.t.Helper()
	b.until("document.getElementById('view').dataset.hash === location.hash && Number(document.getElementById('view').dataset.shown) > 0")
}

// text returns the visible text of the first element that matches a CSS selector.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return value[string](b, fmt.Sprintf("document.querySelector(%[1]q)?.innerText ?? 'NOTHING IS AT ' + %[1]q", selector))
}

// want checks that the element shows text.
func (b *tab) want(selector, text string) {
	b.t.Helper()
	if got := b.text(selector); !strings.Contains(strings.Join(strings.Fields(got), " "), text) {
		b.t.Errorf("%s shows %q, want it to say %q", selector, got, text)
	}
}

// shoot writes a picture of the whole page to the directory $FEEDFILTER_SCREENSHOTS, if it is set.
func (b *tab) shoot(name string) {
	b.t.Helper()
	directory := os.Getenv("FEEDFILTER_SCREENSHOTS")
	if directory == "" {
		return
	}
	png := do(b, chromedp.FullScreenshot(100))
	must(b.t, os.WriteFile(filepath.Join(directory, name+".png"), png, 0o600))
}

// fill sets a field, as typing into it does.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	value[bool](b, fmt.Sprintf("(() => { document.querySelector(%q).value = %q; return true })()", selector, text))
}

// click clicks the element once it exists. It does not use the position on the screen, which may
// change.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.querySelector(%q)", selector))
	value[bool](b, fmt.Sprintf("(document.querySelector(%q).click(), true)", selector))
}

// search asks why the viewer does not get the post, and waits for the answer.
func (b *tab) search(viewer, post, author string) {
	b.t.Helper()
	b.fill("#search-viewer", viewer)
	b.fill("#search-post", post)
	b.fill("#search-author", author)
	b.click("form .main")
	b.until("document.querySelector('.notice')")
}

// visit shows another view, and waits until it is filled.
func (b *tab) visit(hash string) {
	b.t.Helper()
	do(b, chromedp.Evaluate[bool](fmt.Sprintf(`new Promise((done) => {
		if (location.hash === %[1]q) { done(true); return; }
		addEventListener('hashchange', () => done(true), { once: true });
		location.hash = %[1]q;
	})`, hash), chromedp.EvalAwaitPromise))
	b.settled()
}

// press presses keys, of package kb, where the focus is.
func (b *tab) press(keys string) {
	b.t.Helper()
	do(b, chromedp.KeyEvent(keys))
}
