"""The protocol that the codes of FedInit, FedLESAM and FedWMSAM share, with FedWMSAM's values."""

SETTINGS: dict[str, object] = {
    "num_clients": 100,
    "participation": 0.1,
    "sampling": "bernoulli",
    "alpha": 0.1,
    "replacement": True,
    "classes_per_client": 3,
    "local_epochs": 5,
    "batch_size": 50,
    "lr": 0.1,
    "lr_decay": 0.998,
}
ALGORITHM_SETTINGS: dict[str, dict[str, object]] = {"feddyn": {"lr_decay": 0.9995}}

# The FedWMSAM paper: rho 0.01, and 0.1 for FedSMOO and MoFedSAM.
FEDWMSAM_HPARAMS: dict[str, dict[str, object]] = {
    "fedsam": {"rho": 0.01},
    "fedgamma": {"rho": 0.01},
    "fedlesam": {"rho": 0.01},
    "fedlesam_s": {"rho": 0.01},
    "fedlesam_d": {"rho": 0.01},
    "fedwmsam": {"rho": 0.01, "alpha": 0.1, "alpha_step": 0.01},
    "fedsmoo": {"rho": 0.1, "lamb": 0.1},
    "mofedsam": {"rho": 0.1, "beta": 0.1},
    "fedcm": {"alpha": 0.1},
}
