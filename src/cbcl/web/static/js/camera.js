// @ts-check
// The camera itself: asks for it, chooses one, and gives its frames as JPEG.

import { loadSetting, saveSetting } from "./dom.js";

/** @typedef {"off" | "asking" | "on" | "none" | "refused" | "taken" | "insecure"} CameraState */

const MAX_SIDE = 640; // pixels of a frame: enough for any backbone, and small on the wire
const JPEG_QUALITY = 0.92;
/** @type {Record<string, CameraState>} */
const STATE_OF_ERROR = { NotAllowedError: "refused", NotReadableError: "taken" };

/** @returns {CameraState} */
function firstState() {
  if (navigator.mediaDevices !== undefined) return "off";
  return window.isSecureContext ? "none" : "insecure";
}

/** A camera; tells of "state" when its state changes, and of "devices" when some come or go. */
export class Camera extends EventTarget {
  /** @param {HTMLVideoElement} video */
  constructor(video) {
    super();
    this.video = video;
    this.canvas = document.createElement("canvas");
    this.small = document.createElement("canvas");
    /** @type {MediaStream | null} */
    this.stream = null;
    this.state = firstState();
    const changed = () => this.dispatchEvent(new Event("devices"));
    navigator.mediaDevices?.addEventListener?.("devicechange", changed);
  }

  /**
   * Turn on the camera of this id, or the one used last, or any.
   * @param {string | null} id
   */
  async start(id = loadSetting("camera")) {
    if (this.state === "insecure") return;
    this.release();
    this.setState("asking");
    try {
      this.stream = await openStream(id);
    } catch (error) {
      this.setState(STATE_OF_ERROR[error.name] ?? "none");
      return;
    }
    this.track?.addEventListener("ended", () => this.setState("none"));
    this.video.srcObject = this.stream;
    await this.video.play().catch(() => {}); // a tab in the background plays once it is looked at
    if (id) saveSetting("camera", id);
    this.setState("on");
  }

  /**
   * Show its picture in another element; frames are what is seen there.
   * @param {HTMLVideoElement} video
   */
  showIn(video) {
    this.video.srcObject = null;
    this.video = video;
    video.srcObject = this.stream;
    if (this.stream) video.play().catch(() => {});
  }

  stop() {
    this.release();
    this.setState("off");
  }

  release() {
    this.stream?.getTracks().forEach((track) => track.stop());
    this.stream = null;
    this.video.srcObject = null;
  }

  /** @param {CameraState} state */
  setState(state) {
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  get track() {
    return this.stream?.getVideoTracks()[0];
  }

  /** The id of the camera in use. */
  get id() {
    return this.track?.getSettings().deviceId ?? null;
  }

  /** True if it looks at the person rather than away. */
  get facesUser() {
    return this.track?.getSettings().facingMode !== "environment";
  }

  async choices() {
    const devices = await navigator.mediaDevices.enumerateDevices();
    return devices.filter((device) => device.kind === "videoinput" && device.deviceId);
  }

  get ready() {
    return this.state === "on" && this.video.videoWidth > 0 && this.video.readyState >= 2;
  }

  /**
   * Return what the viewfinder shows now, never mirrored; null before the first frame.
   * @returns {Promise<Blob | null>}
   */
  async frame() {
    if (!this.ready) return null;
    const { canvas, video } = this;
    const [x, y, width, height] = shownPart(video);
    const scale = Math.min(1, MAX_SIDE / Math.max(width, height));
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    context?.drawImage(video, x, y, width, height, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done, "image/jpeg", JPEG_QUALITY));
  }

  /**
   * Return what the viewfinder shows now as a small square, RGBA; null before the first frame.
   * @param {number} side
   */
  pixels(side) {
    if (!this.ready) return null;
    const { small, video } = this;
    small.width = small.height = side;
    const context = small.getContext("2d", { willReadFrequently: true });
    const [x, y, width, height] = shownPart(video);
    context?.drawImage(video, x, y, width, height, 0, 0, side, side);
    return context?.getImageData(0, 0, side, side).data ?? null;
  }
}

/**
 * Return the part of a video that is on the screen: what is cut off there is not taught either.
 * @param {HTMLVideoElement} video
 */
function shownPart({ videoWidth, videoHeight, clientWidth, clientHeight }) {
  const scale = Math.max(clientWidth / videoWidth, clientHeight / videoHeight);
  if (scale === 0) return [0, 0, videoWidth, videoHeight]; // it is not on the screen at all
  const [width, height] = [clientWidth / scale, clientHeight / scale];
  return [(videoWidth - width) / 2, (videoHeight - height) / 2, width, height];
}

/**
 * Open the camera of this id; any, if there is none or it is gone.
 * The id is demanded exactly: one that is only wished for is not always honoured.
 * @param {string | null} id
 */
async function openStream(id) {
  const size = { width: { ideal: 1280 }, height: { ideal: 960 } };
  const open = (/** @type {MediaTrackConstraints} */ which) =>
    navigator.mediaDevices.getUserMedia({ audio: false, video: { ...size, ...which } });
  const any = () => open({ facingMode: { ideal: "environment" } });
  if (!id) return any();
  try {
    return await open({ deviceId: { exact: id } });
  } catch (error) {
    if (error.name !== "OverconstrainedError") throw error;
    return any();
  }
}
