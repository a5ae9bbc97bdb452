/* Search on pages that were opened as files: browsers start no worker from a file, so its script runs in a hidden frame. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      const scope = this.frame.contentWindow
      scope.document.open()
      scope.document.write("<!doctype html><html><body></body></html>")
      scope.document.close()
      scope.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      scope.importScripts = (...urls) =>
        urls.reduce((before, each) => before.then(() => load(scope, each)), Promise.resolve())
      load(scope, url).then(() => {
        this.ready = true
        this.waiting.splice(0).forEach(data => this.postMessage(data))
      })
      this.addEventListener("message", event => this.onmessage && this.onmessage(event))
    }

    postMessage(data) {
      if (!this.ready) return this.waiting.push(data)
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
    }

    terminate() {
      this.frame.remove()
    }
  }

  function load(scope, url) {
    return new Promise((resolve, reject) => {
      const script = scope.document.createElement("script")
      script.src = url
      script.onload = resolve
      script.onerror = reject
      scope.document.body.appendChild(script)
    })
  }
}
