"""facenet-pytorch: a network of embeddings trained, the three stages of a face detector, and its boxes."""

import torch
from facenet_pytorch import InceptionResnetV1, fixed_image_standardization
from facenet_pytorch.models.mtcnn import ONet, PNet, RNet
from facenet_pytorch.models.utils.detect_face import batched_nms_numpy, generateBoundingBox, rerec

PACKAGES = ["facenet-pytorch"]


def results():
    torch.manual_seed(0)
    found = {}
    network = InceptionResnetV1(classify=True, num_classes=4, dropout_prob=0.0)
    images = fixed_image_standardization(torch.rand(4, 3, 96, 96) * 255)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(images), torch.arange(4))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    found["losses"] = losses
    network.eval()
    network.classify = False
    with torch.no_grad():
        found["embeddings"] = network(images)[:, ::16]
        for kind, size in ((PNet, 24), (RNet, 24), (ONet, 48)):
            torch.manual_seed(1)
            found[kind.__name__] = [part.sum() for part in kind(pretrained=False).eval()(torch.rand(2, 3, size, size))]
    boxes, images_of = generateBoundingBox(torch.randn(2, 4, 6, 6), torch.rand(2, 6, 6), 1.0, 0.6)
    found["boxes"] = rerec(boxes.clone())
    found["kept"] = batched_nms_numpy(boxes[:, :4], boxes[:, 4], images_of, 0.5, "Union").tolist()
    return found
