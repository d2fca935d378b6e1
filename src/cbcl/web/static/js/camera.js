// The camera itself: asks for it, chooses one, and gives its frames as JPEG.

import { recall, remember } from "./dom.js";

const LONGEST = 640; // pixels of a frame's longer side: enough for any backbone, and small on the wire

/** Its state is off, asking, on, none, refused, taken or insecure; it tells of "state" when that changes. */
export class Camera extends EventTarget {
  constructor(video) {
    super();
    this.video = video;
    this.canvas = document.createElement("canvas");
    this.stream = null;
    this.state = navigator.mediaDevices?.getUserMedia ? "off" : window.isSecureContext ? "none" : "insecure";
    navigator.mediaDevices?.addEventListener?.("devicechange", () => this.dispatchEvent(new Event("devices")));
  }

  /** Turn on the camera of this id, or the one used last, or any. */
  async start(id = recall("camera")) {
    if (this.state === "insecure") return;
    this.release();
    this.become("asking");
    try {
      this.stream = await open(id);
    } catch (error) {
      this.become({ NotAllowedError: "refused", NotReadableError: "taken" }[error.name] ?? "none");
      return;
    }
    const track = this.stream.getVideoTracks()[0];
    track.addEventListener("ended", () => this.become("none"));
    this.video.srcObject = this.stream;
    await this.video.play().catch(() => {}); // a tab in the background plays once it is looked at
    if (id) remember("camera", id);
    this.become("on");
  }

  stop() {
    this.release();
    this.become("off");
  }

  release() {
    this.stream?.getTracks().forEach((track) => track.stop());
    this.stream = null;
    this.video.srcObject = null;
  }

  become(state) {
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  /** The id of the camera in use. */
  get id() {
    return this.stream?.getVideoTracks()[0]?.getSettings().deviceId ?? null;
  }

  /** Whether it looks at the person rather than away. */
  get facesUser() {
    return this.stream?.getVideoTracks()[0]?.getSettings().facingMode !== "environment";
  }

  async choices() {
    const devices = await navigator.mediaDevices.enumerateDevices();
    return devices.filter((device) => device.kind === "videoinput" && device.deviceId);
  }

  get ready() {
    return this.state === "on" && this.video.videoWidth > 0 && this.video.readyState >= 2;
  }

  /** What the camera sees now, never mirrored; null before the first frame. */
  async frame() {
    if (!this.ready) return null;
    const { videoWidth: width, videoHeight: height } = this.video;
    const scale = Math.min(1, LONGEST / Math.max(width, height));
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.getContext("2d").drawImage(this.video, 0, 0, this.canvas.width, this.canvas.height);
    return new Promise((done) => this.canvas.toBlob(done, "image/jpeg", 0.92));
  }
}

/** The camera of this id; any, if there is none or it is gone. (An id that is only wished for is not always honoured.) */
async function open(id) {
  const wish = { width: { ideal: 1280 }, height: { ideal: 960 } };
  const ask = (which) => navigator.mediaDevices.getUserMedia({ audio: false, video: { ...wish, ...which } });
  const any = () => ask({ facingMode: { ideal: "environment" } });
  if (!id) return any();
  return ask({ deviceId: { exact: id } }).catch((error) => (error.name === "OverconstrainedError" ? any() : Promise.reject(error)));
}
